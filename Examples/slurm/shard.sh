#!/bin/bash
# One shard of a publish or a pull in a job array, or the join behind it: what the three *.sbatch files run.
#
# A SIGTERM (preemption, the end of the time limit) is passed on: syncagent keeps what it has and ends with 143. A shard that ends
# with 75 has met another process at the same work, or a join that has to wait: the task goes back to the queue.
set -u
"$@" &
child=$!
trap 'kill -TERM "$child" 2>/dev/null' TERM
status=0
wait "$child" || status=$?
# A signal ends only the waiting, and not what is waited for.
while kill -0 "$child" 2>/dev/null; do
  status=0
  wait "$child" || status=$?
done
if [ "$status" = 75 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt "${RETRIES:-5}" ]; then
  job=${SLURM_JOB_ID:?}
  [ -z "${SLURM_ARRAY_TASK_ID:-}" ] || job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
  echo "shard.sh: 75, back to the queue: $job" >&2
  scontrol requeue "$job" && sleep 60 # Slurm ends this task meanwhile.
fi
exit "$status"
