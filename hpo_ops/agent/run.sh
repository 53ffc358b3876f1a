# Runs the training of a pod: its output also goes to a file, its exit code to another, and SIGTERM
# is recorded and passed on to it. Started by a static busybox, in an image of any kind. The file
# names are those of hpo_ops.protocol.Workspace.
hpo=${HPO_DIR:-/hpo}
PATH=$PATH:$hpo/bin # an image may have none of the tools below
# The user may be unknown to the image: programs that ask for a home folder or a name get one.
# (Writing is tried, because -w tells root that it can write everywhere, even where it cannot.)
if ! (: >"${HOME:-}/.hpo-can-write") 2>/dev/null; then
    export HOME="$hpo/home"
    mkdir -p "$HOME"
fi
rm -f "$HOME/.hpo-can-write"
if ! "$hpo/bin/busybox" id -un >/dev/null 2>&1; then
    export USER="${USER:-hpo}" LOGNAME="${LOGNAME:-hpo}"
fi
# Packages of package_install.py come before those of the image; the image's own setting stays.
if [ -e "$hpo/packages" ]; then
    export PYTHONPATH="$hpo/packages${PYTHONPATH:+:$PYTHONPATH}"
fi
# Busybox would run its own version of a program that it has, such as sh or env.
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
# A pipe that is open as long as this script lives: by it the agent tells a training that runs from
# one that was killed together with its container.
rm -f "$hpo/alive" "$hpo/output"
mkfifo "$hpo/alive" "$hpo/output"
exec 9<>"$hpo/alive"
: >"$hpo/started"
tee -a "$hpo/log.txt" <"$hpo/output" 9>&- &
tee=$!
"$@" >"$hpo/output" 2>&1 9>&- &
training=$!
trap ': >"$hpo/terminated"; kill -TERM $training 2>/dev/null' TERM INT
# The agent cannot signal a process of another container: it writes the signal to a file.
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
# The agent takes the exit code for the end of everything, so the last line is written before it.
tries=0
while kill -0 $tee 2>/dev/null && [ $tries -lt 20 ]; do # unless something keeps its output open
    sleep 0.1
    tries=$((tries + 1))
done
echo $code >"$hpo/exit_code.new"
mv "$hpo/exit_code.new" "$hpo/exit_code"
# Kubernetes ends a native sidecar as soon as this container has ended. So this one ends when the
# agent has delivered everything, or at once if the pod is being terminated. After an hour the
# agent gives up by itself.
if [ -n "${HPO_AGENT_IS_SIDECAR:-}" ]; then
    trap 'exit $code' TERM INT
    tries=0
    while [ ! -e "$hpo/delivered" ] && [ ! -e "$hpo/terminated" ] && [ $tries -lt 20000 ]; do
        sleep 0.2
        tries=$((tries + 1))
    done
fi
exit $code
