#!/usr/bin/env python3
"""Writes the manual page syncagent.1, or the page of all options, from the commands of the program itself.

usage: man.py PROGRAM >syncagent.1
       man.py --options PROGRAM >Documentation/reference/Options.md

Commands and options come from `PROGRAM --experimental-dump-help`, exit statuses from Documentation/reference/Commands.md; what is
said here are files, environment and examples. SOURCE_DATE_EPOCH fixes the date. man(7) has the macros.

Exit status: 0 written, 1 a command or an option that is shown has no help text; it is named.
"""

import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = [
    ("~/.config/syncagent/config.json", "The configuration file; Documentation/reference/Configuration.md has its keys."),
    ("/etc/syncagent/config.json", "The same for every user, where the user's own file says nothing."),
    ("~/.config/syncagent/plugins/syncagent-plugin-*", "Plugins; used only if the configuration selects them."),
    ("~/.config/syncagent/schedules/", "Schedules, one file per schedule."),
    ("~/.local/state/syncagent/", "Sessions, runs, hooks and events, and manifests as they were received."),
    ("$XDG_RUNTIME_DIR/syncagent/agent.sock", "The agent's socket; in the state directory if there is no such directory."),
    ("DESTINATION/.syncagent/", "An index of verified files, and files in transit."),
]
ENVIRONMENT = [
    ("HOME, XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_RUNTIME_DIR", "Directories of the configuration, the state and the socket."),
    ("http_proxy, https_proxy, all_proxy, no_proxy", "Proxies, as in curl(1). http_proxy is read in lower case only."),
    ("HF_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_ENDPOINT", "Access to hf:// sets, as for huggingface_hub."),
    ("AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_ROLE_ARN, AWS_REGION, AWS_ENDPOINT_URL and others", "Access to s3:// sets, as for AWS's own programs."),
    ("DOCKER_CONFIG", "Directory of the config.json with the logins for oci:// sets, as for docker(1); ~/.docker without it."),
    ("SSL_CERT_FILE", "CA certificates to trust instead of the system's, PEM."),
    ("TERM", "Progress is drawn only on terminals that can move the cursor, not if this is dumb."),
    ("SOURCE_DATE_EPOCH", "The time stamp that publish writes into a manifest, for reproducible output."),
]
EXAMPLES = [
    ("Publish a directory and serve it for testing:",
     ["syncagent publish tower --to site", "syncagent serve site"]),
    ("Pull it, and run a program when everything is in place:",
     ["syncagent pull http://127.0.0.1:8080/manifest.json \\", "    --into /srv/tower --hook ./reindex"]),
    ("The same every night at 02:00, for at most four hours:",
     ["syncagent schedule add https://cdn.example.com/tower/manifest.json \\",
      "    --into /srv/tower --nightly 02:00 --window 4h"]),
    ("See what arrived, and what to do about failures:",
     ["syncagent report"]),
]


def escaped(text):
    """Text as roff takes it literally."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti").replace("`", "\\(ga")
    text = text.replace("…", "...").replace("“", "\\(lq").replace("”", "\\(rq").replace("'", "\\(aq")
    return re.sub(r"(?m)^(?=[.])", "\\\\&", text)


def prose(text):
    """Escaped text in lines of at most 78 bytes."""
    lines = textwrap.wrap(escaped(re.sub(r"\s+", " ", text)), 78, break_long_words=False, break_on_hyphens=False)
    return [re.sub(r"^(?=[.])", "\\\\&", line) for line in lines]


def paragraphs(text):
    """A discussion: paragraphs, and what is indented as it stands."""
    lines = []
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.strip("\n"))):
        if number:
            lines.append(".PP")
        if all(line.startswith("  ") for line in paragraph.splitlines()):
            lines += [".RS 4", ".nf", escaped(paragraph), ".fi", ".RE"]
        else:
            lines += prose(paragraph)
    return lines


def names(argument):
    """How an argument is written: with all its names, and its value."""
    value = f"\\fI{escaped(argument['valueName'])}\\fR" if argument.get("valueName") else ""
    if argument["kind"] == "positional":
        return value
    written = ", ".join("\\fB" + escaped(("--" if name["kind"] == "long" else "-") + name["name"]) + "\\fR"
                        for name in argument["names"])
    return written if argument["kind"] == "flag" else f"{written} {value}"


def visible(command):
    """Its arguments that are shown, without those that every command has."""
    return [argument for argument in command.get("arguments", ()) if argument["shouldDisplay"]
            and not {name["name"] for name in argument.get("names", ())} & {"help", "version"}]


def commands(command, path=()):
    """Every command that does something, with its words."""
    for child in command.get("subcommands", ()):
        if not child["shouldDisplay"] or child["commandName"] == "help":
            continue
        words = (*path, child["commandName"])
        if child.get("subcommands"):
            yield from commands(child, words)
        else:
            yield words, child


def heading(words, command):
    """A command's words, with its other names."""
    return ", ".join((" ".join(words), *command.get("aliases", ())))


def sections(command):
    """Its arguments by the headings of its help: those without one come first, as the help shows them."""
    found = {"": []}
    for argument in visible(command):
        found.setdefault(argument.get("sectionTitle") or "", []).append(argument)
    return found


def explained(argument):
    """What the help says of an argument, with its values and its default."""
    text = argument["abstract"]
    if argument.get("allValues") and not any(value in text for value in argument["allValues"]):
        text += f" (values: {', '.join(argument['allValues'])})"
    default = argument.get("defaultValue")
    if default and "(default" not in text:
        text += f" (default: {default})"
    return re.sub(r"\s+", " ", text)


def synopsis(words, command):
    arguments = visible(command)
    parts = ["\\fBsyncagent " + escaped(" ".join(words)) + "\\fR"]
    if any(argument["kind"] != "positional" and argument["isOptional"] for argument in arguments):
        parts.append("[\\fIoptions\\fR]")
    for argument in arguments:
        if argument["kind"] == "positional" or not argument["isOptional"]:
            text = names(argument) + (" ..." if argument["isRepeating"] else "")
            parts.append(f"[{text}]" if argument["isOptional"] else text)
    return " ".join(parts)


def options(command):
    lines = []
    for title, arguments in sections(command).items():
        if title:
            lines += [".PP", f"\\fB{escaped(title)}\\fR"]
        for argument in arguments:
            lines += [".TP", names(argument), *prose(explained(argument))]
    return lines


def markdown(root):
    """The page of all options."""
    def written(argument):
        value = f"<{argument['valueName']}>" if argument.get("valueName") else ""
        if argument["kind"] == "positional":
            return f"`{value}`"
        spelled = ", ".join(("--" if name["kind"] == "long" else "-") + name["name"] for name in argument["names"])
        return f"`{spelled}`" if argument["kind"] == "flag" else f"`{spelled} {value}`"

    def cell(text):
        text = re.sub(r"(?<!\S)(--?[a-z][\w-]*(?:=[a-z]+)?)", r"`\1`", text)
        return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")

    lines = ["# Options", "", "Every command with its options, as `syncagent help COMMAND` shows them. `Packaging/man.py --options` makes this",
             "page from the program, and `Tests/packaging.sh` compares them. See also: [Commands](Commands.md)."]
    for words, command in commands(root):
        lines += ["", "## " + heading(words, command), "", command["abstract"]]
        for title, arguments in sections(command).items():
            if arguments:
                lines += ["", f"| {title or 'option'} | |", "| --- | --- |"]
                lines += [f"| {written(argument)} | {cell(explained(argument))} |" for argument in arguments]
    return "\n".join(lines) + "\n"


def statuses():
    """The table of exit statuses in Documentation/reference/Commands.md."""
    text = (ROOT / "Documentation/reference/Commands.md").read_text(encoding="utf-8")
    table = text.split("## Exit statuses", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| ([0-9, ]+) \| (.+) \|$", table, re.MULTILINE)
    if len(rows) < 10:
        raise SystemExit("man.py: Documentation/reference/Commands.md has no table of exit statuses")
    return [(status, meaning.replace("`", "")) for status, meaning in rows]


def complaints(command, path=("syncagent",)):
    """What is shown and says nothing of itself."""
    found = [] if command.get("abstract") else [f"{' '.join(path)}: no abstract"]
    for argument in visible(command):
        if not argument.get("abstract"):
            named = argument.get("preferredName", {}).get("name") or argument.get("valueName")
            found.append(f"{' '.join(path)}: no help for {named}")
    for child in command.get("subcommands", ()):
        if child["shouldDisplay"] and child["commandName"] != "help":
            found += complaints(child, (*path, child["commandName"]))
    return found


def page(root, version):
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or datetime.datetime.now().timestamp())
    date = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).date().isoformat()
    lines = ['.\\" Made by Packaging/man.py from the program itself. Do not edit.',
             f'.TH SYNCAGENT 1 "{date}" "syncagent {escaped(version)}" "User Commands"',
             ".SH NAME", *prose("syncagent - " + root["abstract"][:1].lower() + root["abstract"].rstrip(".")[1:]),
             ".SH SYNOPSIS", "\\fBsyncagent\\fR \\fIcommand\\fR [\\fIoptions\\fR] [\\fIarguments\\fR]",
             ".SH DESCRIPTION", *paragraphs(root.get("discussion", "").partition("Exit status")[0]),
             ".PP", escaped("Every command takes --help and -h."), ".SH COMMANDS"]
    for words, command in commands(root):
        lines += [".SS " + escaped(heading(words, command)), synopsis(words, command), ".PP", *prose(command["abstract"])]
        if command.get("discussion"):
            lines += [".PP", *paragraphs(command["discussion"])]
        lines += options(command)
    lines.append(".SH EXIT STATUS")
    for status, meaning in statuses():
        lines += [".TP", f"\\fB{escaped(status)}\\fR", *prose(meaning)]
    for title, entries in (("FILES", FILES), ("ENVIRONMENT", ENVIRONMENT)):
        lines.append(f".SH {title}")
        for name, meaning in entries:
            lines += [".TP", f"\\fI{escaped(name)}\\fR", *prose(meaning)]
    lines.append(".SH EXAMPLES")
    for number, (words, text) in enumerate(EXAMPLES):
        lines += [*([".PP"] if number else []), escaped(words), ".PP", ".RS 4", ".nf", *map(escaped, text), ".fi", ".RE"]
    lines += [".SH SEE ALSO", ".BR curl (1),", ".BR rsync (1),", ".BR systemd.timer (5),", ".BR crontab (5),",
              ".BR sysexits (3)"]
    return "\n".join(lines) + "\n"


def main(arguments):
    is_options = arguments[:1] == ["--options"]
    arguments = arguments[is_options:]
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print(__doc__.strip(), file=sys.stderr)
        return 64

    def said(*words):
        return subprocess.run([os.path.abspath(arguments[0]), *words], check=True, capture_output=True, text=True).stdout

    root = json.loads(said("--experimental-dump-help"))["command"]
    found = complaints(root)
    for complaint in found:
        print(f"man.py: {complaint}", file=sys.stderr)
    if not found:
        sys.stdout.write(markdown(root) if is_options else page(root, said("--version").strip()))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
