labkit_a() { read -r labkit_s labkit_r </proc/uptime; };
labkit_w() { { read -r labkit_r labkit_r; read -r labkit_r labkit_o; } </proc/$$/task/$$/io; };
labkit_z() { labkit_c=$?; labkit_x=;
[ $labkit_c -le 128 ] || [ -z "$2" ] || { labkit_w; labkit_x=$((labkit_o-$2)); };
echo "$labkit $1" >&9; read -r labkit_t labkit_r </proc/uptime;
read -r labkit_k </proc/$$/task/$$/children;
echo "$labkit $1 $labkit_c ${labkit_s:--} ${labkit_t:--} ${labkit_k:+left} $labkit_x";
[ -z "$labkit_k" ] || exit; };
labkit_v() { command -v "$2"; echo "$labkit $1"; echo "$labkit $1" >&9; };
labkit_g=$$; kill -s 0 -- "-$$" ||
read -r labkit_r labkit_r labkit_r labkit_r labkit_g labkit_r </proc/$$/stat;
labkit_o=; labkit_w; : </dev/null || labkit_o=;
[ -z "$BASH_VERSION$KSH_VERSION$POSH_VERSION$YASH_VERSION$ZSH_VERSION" ] || labkit_o=;
echo "$labkit 0 $labkit_g ${labkit_o:+counts}"; echo "$labkit 0" >&9
