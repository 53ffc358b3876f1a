# Runs the training of a pod: what it prints also goes to a file, its exit code to another, and
# SIGTERM is noted and passed on to it. Started by a static busybox, in an image of any kind.
hpo=${HPO_DIR:-/hpo}
PATH=$PATH:$hpo/bin # an image may have none of the tools below
# The user may be unknown to the image: what asks for a home folder or for a name gets one.
# (It is tried out: -w tells root that it can write everywhere, also where it cannot.)
if ! (: >"${HOME:-}/.hpo-can-write") 2>/dev/null; then
    export HOME="$hpo/home"
    mkdir -p "$HOME"
fi
rm -f "$HOME/.hpo-can-write"
if ! "$hpo/bin/busybox" id -un >/dev/null 2>&1; then
    export USER="${USER:-hpo}" LOGNAME="${LOGNAME:-hpo}"
fi
# What package_install.py installed comes before what the image has; the image's own setting stays.
if [ -e "$hpo/packages" ]; then
    export PYTHONPATH="$hpo/packages${PYTHONPATH:+:$PYTHONPATH}"
fi
# Of a program that it has itself, such as sh or env, this shell would take its own.
case $1 in
*/*) ;;
*)
    IFS=:
    for folder in $PATH; do
        if [ -x "$folder/$1" ] && [ ! -d "$folder/$1" ]; then
            program=$folder/$1
            shift
            set -- "$program" "$@"
            break
        fi
    done
    unset IFS
    ;;
esac
# A pipe that is open as long as this lives: by it the agent tells a training that is at work from
# one that was killed with everything around it.
rm -f "$hpo/alive" "$hpo/output"
mkfifo "$hpo/alive" "$hpo/output"
exec 9<>"$hpo/alive"
: >"$hpo/started"
tee -a "$hpo/log.txt" <"$hpo/output" 9>&- &
tee=$!
"$@" >"$hpo/output" 2>&1 9>&- &
training=$!
trap ': >"$hpo/told_to_go"; kill -TERM $training 2>/dev/null' TERM INT
# The agent cannot signal a process of another container: it leaves a note.
(
    while kill -0 $training 2>/dev/null; do
        if [ -e "$hpo/signal" ]; then
            kill -"$(cat "$hpo/signal")" $training 2>/dev/null
            rm -f "$hpo/signal"
        fi
        sleep 0.2
    done
) 9>&- &
code=0
wait $training || code=$?
while kill -0 $training 2>/dev/null; do # a signal ends the wait, not the training
    code=0
    wait $training || code=$?
done
# The agent takes the exit code for the end of everything: the last line is written before.
tries=0
while kill -0 $tee 2>/dev/null && [ $tries -lt 20 ]; do # unless something keeps its output open
    sleep 0.1
    tries=$((tries + 1))
done
echo $code >"$hpo/exit_code.new"
mv "$hpo/exit_code.new" "$hpo/exit_code"
# Kubernetes ends a native sidecar as soon as this container has ended: it ends when the agent has
# brought everything home, or is in a hurry anyway. After an hour the agent gives up by itself.
if [ -n "${HPO_AGENT_IS_SIDECAR:-}" ]; then
    trap 'exit $code' TERM INT
    tries=0
    while [ ! -e "$hpo/all_out" ] && [ ! -e "$hpo/told_to_go" ] && [ $tries -lt 20000 ]; do
        sleep 0.2
        tries=$((tries + 1))
    done
fi
exit $code
