# programs: dovecot /usr/lib/postfix/sbin/master postconf postlog setsid
# Serves mail in the foreground, all of it in FOLDER: Postfix takes it, Dovecot shows it to those who know the word.
# Dovecot is there before Postfix listens, so that who waits for the one has both.
#   tiles_mail FOLDER ADDRESS SMTP_PORT IMAP_PORT MAILBOXES WORD_FILE
set -eu
export PATH="$PATH:/usr/sbin:/sbin"
folder=$1 address=$2 smtp=$3 imap=$4 mailboxes=$5 word=$(cat "$6")
owner=$(id -u nobody)
if [ -r /lib/modules/order ]; then
    # A guest of a box knows none of the users that the packages make elsewhere.
    n=64010
    for name in postfix postdrop dovecot dovenull; do
        n=$((n + 1))
        grep -q "^$name:" /etc/passwd || echo "$name:x:$n:$n::/nonexistent:/bin/false" >> /etc/passwd
        grep -qs "^$name:" /etc/group || echo "$name:x:$n:" >> /etc/group
    done
fi

rm -rf "$folder"
mkdir -m 755 "$folder"
cd "$folder"
mkdir queue data conf mail log imap
chown nobody mail
chown postfix data log
for part in active bounce corrupt defer deferred flush hold incoming private saved trace; do
    mkdir -m 700 "queue/$part"
    chown postfix "queue/$part"
done
mkdir queue/pid
mkdir -m 730 queue/maildrop
mkdir -m 710 queue/public
chown postfix queue/maildrop queue/public
chown :postdrop queue/maildrop queue/public

daemons=$(postconf -d -h daemon_directory)
cat > conf/main.cf << CONF
compatibility_level = 3.6
queue_directory = $folder/queue
data_directory = $folder/data
daemon_directory = $daemons
maillog_file = $folder/log/mail
maillog_file_prefixes = $folder
myhostname = mail.tile.test
mydestination =
inet_protocols = ipv4
alias_maps =
local_recipient_maps =
smtpd_peername_lookup = no
smtpd_relay_restrictions = reject_unauth_destination
virtual_mailbox_domains = tile.test
virtual_mailbox_base = $folder/mail
virtual_mailbox_maps = texthash:$folder/conf/mailboxes
virtual_uid_maps = static:$owner
virtual_gid_maps = static:$owner
CONF
n=0
while [ "$n" -lt "$mailboxes" ]; do
    n=$((n + 1))
    echo "tile$n@tile.test tile$n/"
done > conf/mailboxes
cat > conf/master.cf << CONF
$address:$smtp inet n - n - - smtpd
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
anvil unix - - n - 1 anvil
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
postlog unix-dgram n - n - 1 postlogd
CONF
umask 077
cat > conf/dovecot.conf << CONF
base_dir = $folder/imap
state_dir = $folder/imap
log_path = $folder/log/imap
protocols = imap
listen = $address
ssl = no
disable_plaintext_auth = no
first_valid_uid = 1
mail_location = maildir:$folder/mail/%n
passdb {
  driver = static
  args = password=$word
}
userdb {
  driver = static
  args = uid=$owner gid=$owner home=$folder/mail/%n
}
service imap-login {
  service_count = 0
  inet_listener imap {
    port = $imap
  }
  inet_listener imaps {
    port = 0
  }
}
CONF

mail='' pages=''
# Postfix ends what it has begun only where it leads a session.
trap 'kill $mail $pages 2> /dev/null' TERM INT EXIT
dovecot -F -c "$folder/conf/dovecot.conf" < /dev/null > log/dovecot 2>&1 &
pages=$!
until grep -q " [0-9A-F]*:$(printf %04X "$imap") [0-9A-F:]* 0A " /proc/net/tcp; do
    kill -0 "$pages" 2> /dev/null || { tail -n 5 log/* >&2; exit 1; }
    sleep 0.05
done
setsid "$daemons/master" -d -c "$folder/conf" < /dev/null > log/master 2>&1 &
mail=$!
wait "$mail" || { tail -n 5 log/* >&2; exit 1; }
