//! Tests of the planner: judges, random networks, simulation.

mod delays;
mod import;
mod input;
mod judge;
mod labels;
mod ladder;
mod output;
mod random;
mod routes;
mod simulation;
