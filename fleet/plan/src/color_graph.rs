//! Colors of a graph from lists: the most constrained vertex first (DSATUR, Brélaz 1979), with a bounded return to earlier
//! vertices.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

/// Returns to earlier vertices, after which the search ends.
const BUDGET: usize = 20_000;

/// A graph whose vertices get colors; adjacent ones different ones.
pub(crate) struct ColorGraph {
    colors: RangeInclusive<u16>,
    /// Neighbors of each vertex.
    neighbors: Vec<Vec<usize>>,
    /// Colors that each vertex cannot have.
    banned: Vec<BTreeSet<u16>>,
    /// Colors of each vertex's neighbors, with the number of these.
    around: Vec<HashMap<u16, u32>>,
    chosen: Vec<Option<u16>>,
}

impl ColorGraph {
    pub(crate) fn new(
        colors: RangeInclusive<u16>,
        neighbors: Vec<Vec<usize>>,
        mut banned: Vec<BTreeSet<u16>>,
    ) -> Self {
        banned.iter_mut().for_each(|banned| banned.retain(|color| colors.contains(color)));
        let around = vec![HashMap::new(); neighbors.len()];
        let chosen = vec![None; neighbors.len()];
        Self { colors, neighbors, banned, around, chosen }
    }

    /// Gives a vertex its color before the search.
    pub(crate) fn fix(&mut self, vertex: usize, color: u16) {
        self.set(vertex, color);
    }

    /// Whether a vertex can have a color now.
    pub(crate) fn is_free(&self, vertex: usize, color: u16) -> bool {
        self.colors.contains(&color)
            && !self.banned[vertex].contains(&color)
            && !self.around[vertex].contains_key(&color)
    }

    /// Colors all vertices. Those for which no color is left have none.
    pub(crate) fn solve(mut self) -> Vec<Option<u16>> {
        if !self.search() {
            while let Some(vertex) = self.next() {
                match self.free(vertex, *self.colors.start()) {
                    Some(color) => self.set(vertex, color),
                    // Out of the order, without a color.
                    None => self.banned[vertex].extend(self.colors.clone()),
                }
            }
        }
        self.chosen
    }

    /// Searches colors for all vertices; without success, the vertices are as before.
    fn search(&mut self) -> bool {
        let first = *self.colors.start();
        let mut returns = 0;
        let mut done: Vec<(usize, u16)> = Vec::new();
        let (mut vertex, mut least) = (self.next(), first);
        while let Some(current) = vertex {
            if let Some(color) = self.free(current, least) {
                self.set(current, color);
                done.push((current, color));
                (vertex, least) = (self.next(), first);
                continue;
            }
            returns += 1;
            let Some((earlier, color)) = done.pop().filter(|_| returns <= BUDGET) else {
                done.into_iter().rev().for_each(|(vertex, color)| self.clear(vertex, color));
                return false;
            };
            self.clear(earlier, color);
            (vertex, least) = (Some(earlier), color.saturating_add(1));
        }
        self.chosen.iter().all(Option::is_some)
    }

    /// The vertex with the most excluded colors, of those the one with the most neighbors.
    fn next(&self) -> Option<usize> {
        let all = self.colors.len();
        let open = (0..self.chosen.len())
            .filter(|vertex| self.chosen[*vertex].is_none() && self.banned[*vertex].len() < all);
        open.max_by_key(|vertex| {
            let excluded = self.around[*vertex].len() + self.banned[*vertex].len();
            (excluded, self.neighbors[*vertex].len(), Reverse(*vertex))
        })
    }

    fn free(&self, vertex: usize, least: u16) -> Option<u16> {
        (least..=*self.colors.end()).find(|color| self.is_free(vertex, *color))
    }

    fn set(&mut self, vertex: usize, color: u16) {
        self.chosen[vertex] = Some(color);
        for &neighbor in &self.neighbors[vertex] {
            *self.around[neighbor].entry(color).or_insert(0) += 1;
        }
    }

    fn clear(&mut self, vertex: usize, color: u16) {
        self.chosen[vertex] = None;
        for &neighbor in &self.neighbors[vertex] {
            let around = &mut self.around[neighbor];
            if let Some(count) = around.get_mut(&color) {
                *count -= 1;
                if *count == 0 {
                    around.remove(&color);
                }
            }
        }
    }
}
