labkit_a() { read -r labkit_s labkit_r </proc/uptime; };
labkit_z() { labkit_c=$?;
echo "$labkit $1" >&9; read -r labkit_t labkit_r </proc/uptime;
read -r labkit_k </proc/$$/task/$$/children;
echo "$labkit $1 $labkit_c ${labkit_s:--} ${labkit_t:--} ${labkit_k:+left}";
[ -z "$labkit_k" ] || exit; };
labkit_g=$$; kill -s 0 -- "-$$" ||
read -r labkit_r labkit_r labkit_r labkit_r labkit_g labkit_r </proc/$$/stat;
echo "$labkit 0 $labkit_g"; echo "$labkit 0" >&9
