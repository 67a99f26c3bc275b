//! Tests of the planner: judges, random networks, simulation.

mod judge;
mod random;
mod routes;
mod simulation;
