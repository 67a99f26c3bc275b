//! Tests of the planner: judges, random networks, simulation.

mod input;
mod judge;
mod output;
mod random;
mod routes;
mod simulation;
