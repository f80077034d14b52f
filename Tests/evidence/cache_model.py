#!/usr/bin/env python3
"""Simulates many machines behind one cache, with service times that were measured.

usage: cache_model.py --copy-mib MIB --cache-seconds S [--clients N] [--cores N] [--rate MBIT] [--lan MBIT] [--client-seconds S]

  --copy-mib MIB        bytes of the set; it is asked for in slices of 4 MiB, in its order
  --cache-seconds S     processor seconds that the cache takes to send one copy, as measured
  --clients N           machines that ask for all of it at the same time (default 1000)
  --cores N             of the cache's machine (default 2 and 8)
  --rate MBIT           of the line to the origin (default 500), --lan of the net of the site (default 1000 and 10000)

Each slice comes over the line once, one after the other. Each machine asks for its next slice when it has the one before; the
cache's processors and the net take whoever comes first. Printed: when the first and the last machine have everything, beside one
machine alone over the same net, and what it waits for most.
"""
import argparse, heapq

SLICE = 4 << 20


def simulate(size, clients, cores, line, lan, cost):
    """Seconds until the first and the last machine are done, and how busy the processors and the net have been."""
    slices = [min(SLICE, size - at) for at in range(0, size, SLICE)]
    arrival, at = [], 0.0
    for length in slices:
        at += length / line
        arrival.append(at)
    processors = [0.0] * cores
    net, busy, ends = 0.0, [0.0, 0.0], []
    waiting = [(arrival[0], machine, 0) for machine in range(clients)]
    heapq.heapify(waiting)
    while waiting:
        now, machine, number = heapq.heappop(waiting)
        start = max(now, heapq.heappop(processors))
        work = cost * slices[number] / size
        heapq.heappush(processors, start + work)
        begin = max(start + work, net)
        net = begin + slices[number] / lan
        busy[0] += work
        busy[1] += slices[number] / lan
        if number + 1 < len(slices):
            heapq.heappush(waiting, (max(net, arrival[number + 1]), machine, number + 1))
        else:
            ends.append(net)
    return min(ends), max(ends), busy[0] / cores, busy[1]


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--copy-mib", type=float, required=True)
parser.add_argument("--cache-seconds", type=float, required=True)
parser.add_argument("--clients", type=int, default=1000)
parser.add_argument("--cores", type=int, nargs="*", default=[2, 8])
parser.add_argument("--rate", type=float, default=500)
parser.add_argument("--lan", type=float, nargs="*", default=[1000, 10000])
a = parser.parse_args()
size = int(a.copy_mib * (1 << 20))
print(f"| {a.clients} machines, {a.copy_mib:.0f} MiB each | first | last | one alone | processors busy | net busy |")
print("| --- | --: | --: | --: | --: | --: |")
for lan in a.lan:
    for cores in a.cores:
        own = simulate(size, 1, cores, a.rate * 1e6 / 8, lan * 1e6 / 8, a.cache_seconds)[1]
        first, last, processor, net = simulate(size, a.clients, cores, a.rate * 1e6 / 8, lan * 1e6 / 8, a.cache_seconds)
        print(f"| {cores} cores, {lan:.0f} Mbit/s | {first:.1f} s | {last:.1f} s | {own:.1f} s | {processor / last:.0%} | {net / last:.0%} |")
