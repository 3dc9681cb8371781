# The guest is killed as by the kernel, and gone soon after. Some of its processes may have ended by themselves.
# shellcheck disable=SC2046
kill -KILL $(guest "@$0" pids)
for _ in $(seq 100); do
    [ "$(guest "@$0" state)" != stopped ] || exit 0
    sleep 0.05
done
echo "it is $(guest "@$0" state) after 5 s" >&2
exit 1
