#!/bin/sh
# Fits a line to points by gradient descent with momentum: POSIX sh and awk, nothing else.
# What it shares with the platform is the folder $HPO_DIR.
set -eu
cd "$HPO_DIR"

# The assignment is JSON on one line; these are numbers, so that sed can read them.
number() { sed -n "s/.*\"$1\": *\\(-\\{0,1\\}[0-9][0-9.eE+-]*\\).*/\\1/p" assignment.json; }
rate=$(number rate) momentum=$(number momentum)
step=$(number from_step) last=$(number until_step)
last=${last:-30} # null where the study leaves it to the training

# Goes on from the checkpoint that was put in place.
state="0 0 0 0" # slope, intercept, and the speed of each
[ "$step" -eq 0 ] || state=$(cat "checkpoints/$step/state")

terminated=
trap 'terminated=yes' TERM # the machine is taken away: save the step that runs, then leave

while [ "$step" -lt "$last" ]; do
    step=$((step + 1))
    result=$(echo "$state" | awk -v rate="$rate" -v momentum="$momentum" '{
        slope = $1; intercept = $2; n = 40
        for (i = 0; i < n; i++) {
            x = i / n; error = slope * x + intercept - (3 * x - 1)
            loss += error * error / n; ds += 2 * error * x / n; di += 2 * error / n
        }
        vs = momentum * $3 - rate * ds; vi = momentum * $4 - rate * di
        printf "%.17g %.17g %.17g %.17g %.17g", loss, slope + vs, intercept + vi, vs, vi
    }')
    loss=${result%% *} state=${result#* }

    # A checkpoint counts once its marker is there: the marker comes last.
    mkdir -p "checkpoints/$step"
    echo "$state" > "checkpoints/$step/state"
    : > "checkpoints/$step/COMPLETE"

    # A report is a line of JSON.
    echo "{\"step\": $step, \"metrics\": {\"loss\": $loss}}" >> reports.jsonl
    echo "step $step loss $loss"

    # What the platform wants: go on, or leave. How it ended follows from what was asked.
    case $(cat control.json 2> /dev/null || :) in
        *'"action":"pause"'* | *'"action":"stop"'* | *'"action":"resize"'*) exit 0 ;;
    esac
    [ -z "$terminated" ] || exit 143
done
