#!/bin/sh
# Builds a Debian package, and a relocatable archive, from a built program.
#
# usage: Packaging/debian.sh PROGRAM OUT       writes OUT/syncagent_VERSION_ARCH.deb and OUT/syncagent-VERSION-ARCH.tar.gz
#
# Needs dpkg-dev, python3 and binutils. Nothing in the files depends on when or where they are made: SOURCE_DATE_EPOCH is
# taken from the last commit where it is not set, and two builds of one program are the same byte by byte.
# Environment: MAINTAINER, "Name <address>", who answers for the package; lintian wants one that is real.
set -eu

[ $# -eq 2 ] && [ -x "$1" ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 64; }
root=$(cd "$(dirname "$0")/.." && pwd)
program=$1 out=$2
mkdir -p "$out"
out=$(cd "$out" && pwd)
: "${SOURCE_DATE_EPOCH:=$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)}"
: "${MAINTAINER:=syncagent <root@localhost>}"
export SOURCE_DATE_EPOCH
version=$("$program" --version)
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
tree=$work/tree

strip -o "$work/syncagent" "$program"
DESTDIR=$tree "$root/Packaging/install.sh" "$work/syncagent" /usr >/dev/null

# The archive: everything below one directory, to be unpacked anywhere.
cp -R "$tree/usr" "$work/syncagent-$version"
for file in README.md LICENSE CHANGELOG.md CONTRIBUTING.md SECURITY.md Documentation Examples Manifests; do cp -R "$root/$file" "$work/syncagent-$version/"; done
tar --directory "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=go=rX,u+rw -cf - "syncagent-$version" | gzip -9n >"$out/syncagent-$version-$architecture.tar.gz"

# zsh and the completions of others look elsewhere for what comes with the system.
mkdir -p "$tree/usr/share/zsh/vendor-completions"
mv "$tree/usr/share/zsh/site-functions/_syncagent" "$tree/usr/share/zsh/vendor-completions/"
rmdir "$tree/usr/share/zsh/site-functions"
gzip -9n "$tree/usr/share/man/man1/syncagent.1"

# Units: a user's agent, named pulls by the user syncagent, and refreshes of signed sets. None of them is enabled.
systemd=$root/Examples/systemd
mkdir -p "$tree/usr/lib/systemd/user" "$tree/usr/lib/systemd/system" "$tree/usr/lib/sysusers.d" "$tree/usr/lib/tmpfiles.d"
sed 's|/usr/local/bin/|/usr/bin/|' "$systemd/syncagent.service" | sed '2,/^\[Unit\]/{/^#     /d}' \
    >"$tree/usr/lib/systemd/user/syncagent.service"
for unit in syncagent-pull@.service syncagent-pull@.timer syncagent-refresh@.service syncagent-refresh@.timer; do
    sed 's|/usr/local/bin/|/usr/bin/|' "$systemd/$unit" | sed '/^# The files go to/,/^#     install/d' \
        >"$tree/usr/lib/systemd/system/$unit"
done
echo 'u syncagent - "Pulls of asset sets" /var/lib/syncagent' >"$tree/usr/lib/sysusers.d/syncagent.conf"
printf '%s\n' 'd /var/lib/syncagent 0700 syncagent syncagent' 'd /srv/syncagent 0755 syncagent syncagent' \
    >"$tree/usr/lib/tmpfiles.d/syncagent.conf"

documents=$tree/usr/share/doc/syncagent
mkdir -p "$documents" "$tree/DEBIAN"
cp "$root/README.md" "$root/CONTRIBUTING.md" "$root/SECURITY.md" "$documents/"
cp -R "$root/Documentation" "$root/Examples" "$root/Manifests" "$documents/"
# A sample of an empty file says nothing to a reader, and lintian takes it for a mistake.
find "$documents" -type f -empty -delete
rm -rf "$documents/Examples/quickstart.sh" "$documents/Examples/watch-session"
gzip -9nc "$root/CHANGELOG.md" >"$documents/CHANGELOG.md.gz"
printf 'syncagent (%s) stable; urgency=medium\n\n  * CHANGELOG.md.gz says what is new.\n\n -- %s  %s\n' "$version" "$MAINTAINER" \
    "$(LC_ALL=C date --utc --date="@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S +0000')" | gzip -9n >"$documents/changelog.gz"
cat >"$documents/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: syncagent

Files: *
Copyright: 2026 the authors of syncagent
License: Apache-2.0
 Licensed under the Apache License, Version 2.0. On Debian systems its full text is in
 /usr/share/common-licenses/Apache-2.0.
END

# Libraries by what the program is linked with, as dpkg-shlibdeps(1) knows them.
mkdir -p "$work/debian"
printf 'Source: syncagent\n\nPackage: syncagent\nArchitecture: any\n' >"$work/debian/control"
libraries=$(cd "$work" && dpkg-shlibdeps -O "tree/usr/bin/syncagent" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
[ -n "$libraries" ] || { echo "debian.sh: dpkg-shlibdeps found no libraries" >&2; exit 1; }
# It knows the versions of symbols, but not that of the loader, which must know RELR: see Package.swift.
libraries=$(printf '%s\n' "$libraries" | sed 's/libc6 (>= 2\.3[0-5])/libc6 (>= 2.36)/')
cat >"$tree/DEBIAN/control" <<END
Package: syncagent
Version: $version
Architecture: $architecture
Maintainer: $MAINTAINER
Installed-Size: $(du -k -s --apparent-size "$tree/usr" | cut -f1)
Depends: $libraries, systemd | systemd-standalone-sysusers | systemd-sysusers
Recommends: ca-certificates
Suggests: git, rclone
Section: net
Priority: optional
Description: verified copies of large sets of files, every night
 For projects with thousands of files: drawings, textures, models, map tiles,
 weights. syncagent makes a directory match a published manifest exactly, with a
 handful of requests to any static web server. It checks every byte against its
 SHA-256 before the file becomes visible, resumes where it was stopped, and runs
 a hook once everything is in place.
END
cat >"$tree/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    systemd-sysusers syncagent.conf
    if command -v systemd-tmpfiles >/dev/null; then systemd-tmpfiles --create syncagent.conf || true; fi
    # Where there is none: containers.
    [ -d /var/lib/syncagent ] || install -d -o syncagent -g syncagent -m 0700 /var/lib/syncagent
    [ -d /srv/syncagent ] || install -d -o syncagent -g syncagent -m 0755 /srv/syncagent
    if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
fi
END
cat >"$tree/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
# Stops agents and pulls, which keep everything: without the program nobody could control them.
if [ "$1" = remove ]; then
    start-stop-daemon --stop --quiet --oknodo --exec /usr/bin/syncagent --retry TERM/10 || true
fi
END
cat >"$tree/DEBIAN/postrm" <<'END'
#!/bin/sh
set -e
# What was pulled stays, in /srv/syncagent: it is not this package's. State goes, and what would call the program.
if [ "$1" = purge ]; then
    rm -rf /var/lib/syncagent
    for unit in /etc/systemd/system/syncagent-schedule-*; do
        grep -qs "^# Written by 'syncagent schedule add'" "$unit" || continue
        name=${unit##*/}
        if [ -d /run/systemd/system ]; then systemctl disable --now "$name" || true; fi
        rm -f "$unit" "/etc/systemd/system/timers.target.wants/$name"
    done
    for table in /etc/cron.d/syncagent-*; do
        if grep -qs '^# syncagent schedule .*: do not edit;' "$table"; then rm -f "$table"; fi
    done
    if command -v crontab >/dev/null; then
        for table in /var/spool/cron/crontabs/*; do
            grep -qs '^# syncagent schedule .*: do not edit;' "$table" || continue
            # A block without its end is its first line alone: the lines after it may be anybody's. cron writes its own
            # three first lines again.
            awk 'NR <= 3 && /^# (DO NOT EDIT THIS FILE|\(.* installed on |\(Cron version )/ { next }
                /^# syncagent schedule .*: do not edit;/ { printf "%s", block; block = ""; inside = 1; next }
                /^# syncagent schedule .*: end$/ && inside { block = ""; inside = 0; next }
                inside { block = block $0 "\n"; next }
                { print }
                END { printf "%s", block }' "$table" | crontab -u "${table##*/}" - || true
        done
    fi
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
END
chmod 755 "$tree/DEBIAN/postinst" "$tree/DEBIAN/prerm" "$tree/DEBIAN/postrm"
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$tree" "$out/syncagent_${version}_$architecture.deb" >/dev/null
sha256sum "$out/syncagent_${version}_$architecture.deb" "$out/syncagent-$version-$architecture.tar.gz"
