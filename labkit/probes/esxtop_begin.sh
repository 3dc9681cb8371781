# programs: esxtop
# In the background, and bounded, as nobody may come to end it; `timeout` differs among BusyBoxes.
# The folder is the run's own, so that two runs on one host do not meet.
folder=$(mktemp -d /tmp/labkit-esxtop-XXXXXX) || exit
esxtop -b -d "$1" -n "$2" > "$folder/csv" 2> "$folder/err" </dev/null &
echo "$! $folder"
