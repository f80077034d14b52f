#!/bin/bash
# A real Slurm on this machine, with its accounting: job arrays of Examples/slurm publish and pull a set; tasks are killed and
# requeued, the joins wait for them, and what sacct lists in the end is printed.
#
# usage: slurm.sh [--files N]
#
#   --files N   of the set (default 3000)
#
# munged, mariadbd, slurmdbd, slurmctld and slurmd are those of Debian, started here, with state and sockets in a directory of their
# own. One task of the pull gets SIGKILL while it works. Held: the directory is what the source is (diff -r),
# the hook was called once, sacct knows each task as completed, and those that were killed as requeued before.
#
# It needs root, and three to five minutes: Slurm waits two minutes before it starts a task again.
. "$(dirname "$0")/common.sh"
. "$EVIDENCE/serve-nginx.sh"

files=3000
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) usage ;;
  --files) files=${2:?--files wants a number}; shift ;;
  *) usage 64 >&2 ;;
  esac
  shift
done
[ "$(id -u)" = 0 ] || { say "SKIPPED: Slurm's daemons need root"; exit 77; }
need munged=munge mariadbd=mariadb-server slurmdbd=slurmdbd slurmctld=slurmctld slurmd=slurmd sacct=slurm-client
find_binary
make_work
d=$WORK/slurm host=$(hostname -s)
mkdir -p "$d"/{state,spool,bin,mysql}
ln -s "$SYNCAGENT" "$d/bin/syncagent"
# daemon NAME COMMAND…: in the foreground, behind this script, until it ends.
daemon() {
  local name=$1
  shift
  "$@" >"$d/$name.out" 2>&1 &
  on_exit end $!
}
# until_so WHAT COMMAND…
until_so() {
  local what=$1
  shift
  for _ in {1..240}; do "$@" >/dev/null 2>&1 && return; sleep 0.5; done
  tail -n 5 "$d"/*.out "$d"/*.log >&2
  die "$what"
}

head -c 1024 /dev/urandom >"$d/munge.key"
chmod 400 "$d/munge.key"
daemon munged munged -F --force --key-file="$d/munge.key" --socket="$d/munge.sock" --pid-file="$d/munge.pid" \
  --log-file="$d/munge.log" --seed-file="$d/munge.seed"
until_so "munged does not start" test -S "$d/munge.sock"

database=$(free_port)
mariadb-install-db --user=root --datadir="$d/mysql" --auth-root-authentication-method=normal --skip-test-db >"$d/install.out" 2>&1 ||
  { tail -n 5 "$d/install.out" >&2; die "mariadb-install-db"; }
daemon mariadbd mariadbd --no-defaults --user=root --datadir="$d/mysql" --socket="$d/mysql.sock" --pid-file="$d/mysql.pid" \
  --bind-address=127.0.0.1 --port="$database" --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900
sql() { mariadb --no-defaults --socket="$d/mysql.sock" -u root "$@"; }
until_so "mariadbd does not start" sql -e "select 1"
sql -e "create database slurm; create user slurm@'127.0.0.1' identified by 'secret'; grant all on slurm.* to slurm@'127.0.0.1'; \
  create user slurm@localhost identified by 'secret'; grant all on slurm.* to slurm@localhost"

dbd=$(free_port) ctld=$(free_port) node=$(free_port)
cat >"$d/slurmdbd.conf" <<C
AuthType=auth/munge
AuthInfo=socket=$d/munge.sock
DbdHost=$host
DbdAddr=127.0.0.1
DbdPort=$dbd
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$database
StorageUser=slurm
StoragePass=secret
StorageLoc=slurm
PidFile=$d/slurmdbd.pid
LogFile=$d/slurmdbd.log
C
chmod 600 "$d/slurmdbd.conf"
cat >"$d/slurm.conf" <<C
ClusterName=trial
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$d/munge.sock
SlurmctldPort=$ctld
SlurmdPort=$node
StateSaveLocation=$d/state
SlurmdSpoolDir=$d/spool
SlurmctldPidFile=$d/slurmctld.pid
SlurmdPidFile=$d/slurmd.pid
SlurmctldLogFile=$d/slurmctld.log
SlurmdLogFile=$d/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$dbd
AccountingStoragePass=$d/munge.sock
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=low Nodes=$host Default=YES MaxTime=INFINITE State=UP
C
export SLURM_CONF=$d/slurm.conf PATH=$d/bin:$PATH
daemon slurmdbd slurmdbd -D
until_so "slurmdbd does not answer" sacctmgr -n list cluster
sacctmgr -i add cluster trial >"$d/cluster.out" 2>&1 || grep -q 'already' "$d/cluster.out" || say "note: $(tail -n 1 "$d/cluster.out")"
daemon slurmctld slurmctld -D
daemon slurmd slurmd -D -N "$host"
until_so "the node does not come up" bash -c "sinfo -h -o %t | grep -q idle"
say "$(sinfo --version), accounting by slurmdbd and $(mariadbd --version | grep -o '[0-9.]*-MariaDB')"

cd "$WORK"
python3 - "$files" <<'P'
import os, random, sys
pick = random.Random(3)
for index in range(int(sys.argv[1])):
    path = f"set/d{index % 37}/f{index}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file: file.write(pick.randbytes(int(pick.paretovariate(0.9) * 3000) % 300000))
P
printf '#!/bin/sh\necho "$SYNCAGENT_RESULT $SYNCAGENT_CHANGED" >>%s/calls\n' "$WORK" >hook
chmod +x hook
cp "$ROOT"/Examples/slurm/* .
mkdir site
nginx_start set "$WORK/site"
# So that there is time to kill something.
sed -i 's/--into "$INTO" --shard/--into "$INTO" --limit-rate 400K --shard/' pull.sbatch
export DIR=$WORK/set OUT=$WORK/site PROJECT=com.example.set SHARDS=4 SOURCE=$URL/manifest.json INTO=$WORK/copy HOOK=$WORK/hook
export SHARD_STATE=$WORK/shard-state EXAMPLES=$WORK

# victim PATTERN: the process whose command line has it, once there is one.
victim() {
  local found
  for _ in {1..200}; do
    found=$(grep -l -a -z -- "^$1\$" /proc/[0-9]*/cmdline 2>/dev/null | cut -d / -f 3 | while read -r one; do
      [ "$(readlink "/proc/$one/exe")" != "$SYNCAGENT" ] || echo "$one"
    done | head -n 1)
    [ -z "$found" ] || { echo "$found"; return; }
    sleep 0.05
  done
}

publish=$(sbatch --parsable --array=0-3 publish.sbatch)
join=$(sbatch --parsable --dependency=afterok:"$publish" join.sbatch publish)
pull=$(sbatch --parsable --array=0-3 --dependency=afterok:"$join" pull.sbatch)
last=$(sbatch --parsable --dependency=afterok:"$pull" join.sbatch pull)
state_of() { squeue -h -j "$1" -o %T 2>/dev/null | sort -u | tr '\n' ' '; }
for _ in {1..600}; do case $(state_of "$pull") in *RUNNING*) break ;; esac; sleep 0.5; done
sleep 2
killed=$(victim 2/4)
if [ -n "$killed" ]; then kill -KILL "$killed"; say "task ${pull}_2 was killed"; else broken "there was no task to kill"; fi
sleep 3
squeue -r >&2
for _ in {1..1200}; do [ -n "$(state_of "$last")" ] || break; sleep 0.5; done
sleep 3

sacct -D -X -j "$publish,$join,$pull,$last" --format=JobID%10,JobName%18,State%12,ExitCode,Elapsed,Start,End | tee sacct.txt
[ "$(grep -c COMPLETED sacct.txt)" = 10 ] || broken "sacct does not list ten jobs as completed"
grep -q "${pull}_2 .*\\(REQUEUED\\|CANCELLED\\|FAILED\\|NODE_FAIL\\)" sacct.txt || broken "sacct does not list the task that was killed"
diff -r -x .syncagent set copy >differences || broken "$(head -n 3 differences)"
[ "$(cat calls)" = "ok $files" ] || broken "the hook was called with $(tr '\n' , <calls)"
verdict
