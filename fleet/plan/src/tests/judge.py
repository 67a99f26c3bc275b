# Judges of the planner: networkx for pairs, scipy's HiGHS for pairs with groups and for admission.
# Reads one problem a line as JSON, writes one answer a line.
import json
import sys

import networkx
import numpy
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix


def pair(problem):
    """Least sum of `count` node-disjoint paths; None: there are fewer."""
    graph = networkx.DiGraph()
    source, target = problem["from"], problem["to"]
    for node in range(problem["nodes"]):
        graph.add_edge((node, 0), (node, 1), capacity=1, weight=0)
    graph.add_node("s", demand=-problem["count"])
    graph.add_node("t", demand=problem["count"])
    graph.add_edge("s", (source, 1), capacity=problem["count"], weight=0)
    graph.add_edge((target, 0), "t", capacity=problem["count"], weight=0)
    graph.remove_edge((source, 0), (source, 1))
    graph.remove_edge((target, 0), (target, 1))
    for number, (a, b, cost) in enumerate(problem["links"]):
        for tail, head in ((a, b), (b, a)):
            # Parallel links are vertices of their own.
            middle = ("link", number, tail)
            graph.add_edge((tail, 1), middle, capacity=1, weight=cost)
            graph.add_edge(middle, (head, 0), capacity=1, weight=0)
    try:
        return networkx.network_simplex(graph)[0]
    except networkx.NetworkXUnfeasible:
        return None


def constraints(rows, columns):
    matrix = lil_matrix((len(rows), columns))
    low, high = [], []
    for number, (terms, least, most) in enumerate(rows):
        for column, factor in terms:
            matrix[number, column] += factor
        low.append(least)
        high.append(most)
    return LinearConstraint(matrix.tocsr(), low, high)


def solve(cost, rows):
    columns = len(cost)
    result = milp(
        numpy.array(cost, dtype=float),
        constraints=constraints(rows, columns),
        integrality=numpy.ones(columns),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0},
    )
    return None if result.x is None else round(result.fun)


def flow_rows(problem, first, source, target, amount):
    """Conservation of the flow whose arcs start at column `first`; `amount`: its terms and constant."""
    rows = []
    for node in range(problem["nodes"]):
        terms = []
        for number, (a, b, *_) in enumerate(problem["links"]):
            for arc, tail, head in ((2 * number, a, b), (2 * number + 1, b, a)):
                if tail == node:
                    terms.append((first + arc, 1))
                if head == node:
                    terms.append((first + arc, -1))
        sign = (node == source) - (node == target)
        extra = [(column, -sign * factor) for column, factor in amount[0]]
        rows.append((terms + extra, sign * amount[1], sign * amount[1]))
    return rows


def group_pair(problem):
    """Least sum of two paths without a common inner node, link or group."""
    arcs, groups = 2 * len(problem["links"]), problem["groups"]
    source, target = problem["from"], problem["to"]
    columns = 2 * arcs + 2 * len(groups)
    cost = [0] * columns
    rows = []
    for path in (0, 1):
        rows += flow_rows(problem, path * arcs, source, target, ([], 1))
        for number, (_, _, weight) in enumerate(problem["links"]):
            for arc in (2 * number, 2 * number + 1):
                cost[path * arcs + arc] = weight
        for number, members in enumerate(groups):
            used = 2 * arcs + path * len(groups) + number
            for link in members:
                for arc in (2 * link, 2 * link + 1):
                    rows.append(([(used, 1), (path * arcs + arc, -1)], 0, numpy.inf))
    for number in range(len(groups)):
        rows.append(([(2 * arcs + number, 1), (2 * arcs + len(groups) + number, 1)], 0, 1))
    for link in range(len(problem["links"])):
        terms = [(path * arcs + 2 * link + way, 1) for path in (0, 1) for way in (0, 1)]
        rows.append((terms, 0, 1))
    for node in range(problem["nodes"]):
        terms = []
        for number, (a, b, _) in enumerate(problem["links"]):
            for arc, head in ((2 * number, b), (2 * number + 1, a)):
                if head == node:
                    terms += [(arc, 1), (arcs + arc, 1)]
        most = 0 if node == source else 2 if node == target else 1
        rows.append((terms, 0, most))
    return solve(cost, rows)


def admission(problem):
    """Most streams that have two disjoint paths within the capacities."""
    arcs, streams = 2 * len(problem["links"]), problem["streams"]
    columns = len(streams) * (arcs + 1)
    cost, rows = [0] * columns, []
    load = [[] for _ in range(arcs)]
    for number, (source, target, rate) in enumerate(streams):
        first = number * (arcs + 1)
        accepted = first + arcs
        cost[accepted] = -1
        rows += flow_rows(problem, first, source, target, ([(accepted, 2)], 0))
        for node in range(problem["nodes"]):
            if node in (source, target):
                continue
            terms = []
            for link, (a, b, *_) in enumerate(problem["links"]):
                for arc, head in ((2 * link, b), (2 * link + 1, a)):
                    if head == node:
                        terms.append((first + arc, 1))
            rows.append((terms, 0, 1))
        for arc in range(arcs):
            load[arc].append((first + arc, rate))
    for arc in range(arcs):
        rows.append((load[arc], 0, problem["capacity"]))
    return -solve(cost, rows)


def coloring(problem):
    """Whether all vertices can have a color of their list, adjacent ones different ones."""
    colors = problem["colors"]
    names = [(vertex, color) for vertex, free in enumerate(colors) for color in free]
    column = {name: number for number, name in enumerate(names)}
    rows = []
    for vertex, free in enumerate(colors):
        rows.append(([(column[vertex, color], 1) for color in free], 1, 1))
    for a, b in problem["edges"]:
        for color in set(colors[a]) & set(colors[b]):
            rows.append(([(column[a, color], 1), (column[b, color], 1)], 0, 1))
    if not all(colors):
        return False
    return solve([0] * len(names), rows) is not None


kinds = {"pair": pair, "groups": group_pair, "admission": admission, "coloring": coloring}
for line in sys.stdin:
    query = json.loads(line)
    print(json.dumps(kinds[query["kind"]](query)))
