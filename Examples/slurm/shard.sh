#!/bin/bash
# One shard of a publish or a pull in a job array, or the join behind it: what the three *.sbatch files run.
#
# SIGTERM (scancel, preemption) is passed on: syncagent keeps what it has and ends with 143; Slurm puts preempted tasks back into the
# queue by itself. So it is with SIGUSR1, which comes a minute before the time limit, but then the task goes back to the queue.
#
# A task that fails for a reason that may pass (75: somebody else is at it; 69: nothing reachable; a kill) goes back, too, at most
# RETRIES times, 5 if nothing is said. That has to happen before it has failed: a join that depends on it would never run.
set -u
late=
"$@" &
child=$!
trap 'kill -TERM "$child" 2>/dev/null' TERM
trap 'late=yes; kill -TERM "$child" 2>/dev/null' USR1
status=0
wait "$child" || status=$?
# A signal ends only the waiting, and not what is waited for.
while kill -0 "$child" 2>/dev/null; do
  status=0
  wait "$child" || status=$?
done
case $status in
0 | 5 | 64 | 65 | 66 | 73 | 77 | 78) exit "$status" ;; # done, or no better the next time
130 | 143) [ -n "$late" ] || exit "$status" ;;
esac
if [ "${SLURM_RESTART_COUNT:-0}" -lt "${RETRIES:-5}" ]; then
  job=${SLURM_JOB_ID:?}
  [ -z "${SLURM_ARRAY_TASK_ID:-}" ] || job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
  echo "shard.sh: $job ended with $status, back to the queue" >&2
  scontrol requeue "$job" && sleep 60 # Slurm ends this task meanwhile.
fi
exit "$status"
