# shellcheck shell=sh
# Common parts of these scripts. Each reads it first: . "$(dirname "$0")/lib.sh"
# shellcheck disable=SC2034 # variables are for those scripts

# cd searches the CDPATH of a caller, and prints the directory that it finds.
unset CDPATH
# The directory of the tree.
root=$(cd "$(dirname "$0")/.." && pwd)
# The program cargo, independent of the current directory.
cargo=${CARGO:-scripts/cargo}
case $cargo in
/*) ;;
*/*) cargo=$root/$cargo ;;
esac

# Prints an error of the script, and exits.
fail() {
	echo "$(basename "$0" .sh): $*" >&2
	exit 2
}

# Creates a directory, and prints its absolute path.
directory() {
	mkdir -p "$1" && (cd "$1" && pwd)
}

# Prints the text files of the tree: in a Git checkout those that Git does not ignore, elsewhere all except build
# results.
text_files() {
	if [ -e "$root/.git" ]; then
		git -C "$root" grep --untracked -Il ''
	else
		(cd "$root" && grep -rIl --exclude-dir=target --exclude-dir=out --exclude-dir=vendor --exclude-dir=corpus '' -- .[!.]* *)
	fi
}

# Removes a file or directory when the script exits, also by a signal: after a trap that does not exit, sh continues.
remove_at_exit() {
	temporary=$1
	trap 'rm -rf --one-file-system "$temporary"' EXIT
	trap 'exit 130' INT TERM HUP
}
