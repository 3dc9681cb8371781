labkit_z() { labkit_c=$?; read -r labkit_k </proc/$$/task/$$/children;
echo "$labkit $1" >&9; echo "$labkit $1 $labkit_c ${labkit_k:+left}";
[ -z "$labkit_k" ] || exit; };
labkit_g=$$; kill -s 0 -- "-$$" ||
read -r labkit_r labkit_r labkit_r labkit_r labkit_g labkit_r </proc/$$/stat;
echo "$labkit 0 $labkit_g"; echo "$labkit 0" >&9
