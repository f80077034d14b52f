"""Runs the attacks of holes.sh: holes.py PROGRAM DIRECTORY [ITEM…]. The attacks stand in holes_*.py."""

import os
import subprocess
import sys
import traceback

import holes_agent
import holes_base
import holes_digest
import holes_disk
import holes_engine
import holes_inherited
import holes_keys
import holes_network
import holes_publish
import holes_record
import holes_requests
import holes_said
import holes_small
import holes_systems
import holes_tree
from holes_place import ATTACKS, NotShown, Place


def order(item):
    return (0, int(item)) if item.isdigit() else (1, 0)


def attempt(program, directory, number, attack):
    """The line's end, and whether it counts as open, held or not shown."""
    place = Place(program, os.path.join(directory, str(number)))
    try:
        found = attack(place)
    except NotShown as reason:
        return "not shown here", f"not shown here: {reason}"
    except Exception:  # An attack that breaks has shown nothing, and must not pass for one that was held off.
        return "open", f"OPEN: the attack itself broke: {traceback.format_exc().splitlines()[-1]}"
    finally:
        place.close()
    return ("open", f"OPEN: {found}") if found else ("held", "held")


def main(program, directory, *items):
    wanted = set(items)
    unknown = wanted - {item for item, _, _ in ATTACKS}
    if unknown:
        raise SystemExit(f"holes: no such item: {', '.join(sorted(unknown))}")
    if subprocess.run(["ip", "link", "set", "lo", "up"], check=False, capture_output=True).returncode == 0:
        subprocess.run(["ip", "addr", "add", "203.0.113.1/32", "dev", "lo"], check=False, capture_output=True)
    counts = {"held": 0, "open": 0, "not shown here": 0}
    chosen = [attack for attack in ATTACKS if not wanted or attack[0] in wanted]
    for number, (item, words, attack) in enumerate(sorted(chosen, key=lambda attack: order(attack[0]))):
        kind, end = attempt(program, directory, number, attack)
        counts[kind] += 1
        print(f"{item:>5}  {words}: {end.replace(directory, '')}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    if counts["open"]:
        return 1
    return 0 if counts["held"] else 77


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
