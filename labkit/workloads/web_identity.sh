# programs: openssl
# Prints a key and its certificate. The key never leaves the hosts of the lab, and is for one run.
key=$(openssl ecparam -genkey -name prime256v1 -noout) &&
printf '%s\n' "$key" && printf '%s\n' "$key" |
openssl req -x509 -new -key /dev/stdin -days 2 -subj /CN=labkit 2> /dev/null
