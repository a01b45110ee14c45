use super::super::read;

fn check(lines: &str, is_understood: bool) {
    let wrong: Vec<&str> = lines
        .lines()
        .filter(|line| {
            let script = read(&line.replace('⏎', "\n"));
            script.runs().is_known != is_understood
        })
        .collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Bash runs `b` in each of them, besides what stands there as a command.
#[test]
fn what_a_value_runs_makes_a_line_one_that_is_not_understood() {
    check(
        r#"f() { x="$1 "; echo $((x)); }; f 'y[$(b)]'
f() { x="$1$2"; echo $((x)); }; f 'y[$(b' ')]'
f() { a=("$@"); echo $((a[0])); }; f 'y[$(b)]'
f() { x=${1%a}; echo $((x)); }; f 'y[$(b)]'
f() { for x in "$1 "; do echo $((x)); done; }; f 'y[$(b)]'
f() { a=$1; x="y[$a(b)]"; echo $((x)); }; f '$'
f() { echo $(($1)); }; f 'y[$(b)]'
bash -c 'x="$1 "; echo $((x))' _ 'y[$(b)]'
a='y['; c='$(b)]'; x=$a$c; echo $((x))
a='y[$'; c='(b)]'; x=$a$c; echo $((x))
a=y[$; c='(b)]'; x=$a$c; echo $((x))
a="y[$"; c='(b)]'; x=$a$c; echo $((x))
a='y['; c=\`b\`]; x=$a$c; echo $((x))
a=$'y[\44(b)]'; x=$a; echo $((x))
a=$'y[\x24(b)]'; x=$a; echo $((x))
a=$'y[\u0060b\140]'; x=$a; echo $((x))
b=a; a="y[${b/a/\$}(b)]"; x=$a; echo $((x))
x='y[$(b)]'; let x
x+=(0 '$'); y="z[${x[1]}(b)]"; echo $((y))
a='y['; c='$(b)]'; [[ $a$c -eq 1 ]]
a='y['; c='$(b)]'; x=$a$c; echo ${PATH:x}
: 'y[$(b)]'; x=$_; echo $((x))
[[ 'y[$(b)]' =~ .* ]]; x=${BASH_REMATCH[0]}; echo $((x))
[[ 'y[$(b)]' =~ .* ]]; x=("${BASH_REMATCH[@]}"); echo $((x[0]))
x=${BASH_COMMAND%a}; echo $((x)) 'y[$(b)]'
cd 'y[$(b)]'; cd ..; x=${OLDPWD##*/}; echo $((x))
x=$(echo 'y[$(b)]'); echo $((x))
x=$(printf 'y[\044(b)]'); echo $((x))
x=$(echo 'y[$')$(echo '(b)]'); echo $((x))
x=$(cat <<'X'⏎y[$(b)]⏎X⏎); echo $((x))
x=$(cat <<< 'y[$(b)]'); echo $((x))
x=$(basename 'y[$(b)]'); echo $((x))
x=`echo 'y[$(b)]'`; echo $((x))
f() { echo 'y[$(b)]'; }; x=$(f); echo $((x))
x='y[$(b)]' bash -c 'echo $((x))'
export x='y[$(b)]'; bash -c 'echo $((x))'
export x=y\[\$\(b\)\]; bash -c echo\ \$\(\(x\)\)
export x=y$(printf '\133$(b)\135'); bash -c echo\ \$\(\(x\)\)
x='y[$(b)]'; eval "echo \$((x))"
x='y[$(b)]'; echo `echo \$((x))`
bash -c 'x=$(echo "$1"); echo $((x))' _ 'y[$(b)]'
a='y['; c='$(b)]'; export "x=$a$c"; echo $((x))
y='z[$(b)]'; read 'x[y]' <<< 1
y='z[$(b)]'; printf -v 'x[y]' 1
y='z[$(b)]'; declare 'x[y]=1'
y='z[$(b)]'; unset 'x[y]'
x=-r; echo $(($(grep -c "$x" .)))
[ $(git rev-parse --sq-quote 'a b') = x ]
[ $(git rev-parse --show-toplevel) = x ]
f() { echo $(($1)); }; set -k; f() { echo $((a)); }; f a='y[$(b)]' 1
set -o keyword; f() { echo $((a)); }; f a='y[$(b)]' 1
set -a; f() { echo $(($1)); }; f 1
x='y[$(b)]' f; f() { echo $((x)); }"#,
        false,
    );
}

#[test]
fn ordinary_lines_that_evaluate_are_understood() {
    check(
        r#"n=$(awk '{print $1}' a.txt); echo $((n + 1))
n=$(grep -c 'x$' a.txt); echo $((n + 1))
n=$(sed -n 's/^v\(.*\)$/\1/p' a.txt); echo $((n + 1))
n=$(cargo test 2>&1 | grep -c 'ok$'); [[ $n -gt 3 ]] && echo many
[[ $n =~ ^[0-9]+$ ]] && echo $((n + 1))
price=${p#\$}; echo $((price * 2))
price=${p//\$/}; echo $((price * 2))
for i in 1 2 3; do echo "costs \$$((i * 2))"; done
i=0; while [ $i -lt 3 ]; do awk '{print $2}' a.txt; i=$((i + 1)); done
i=0; for f in src/*.rs; do i=$((i + 1)); sed -n '$p' "$f"; done; echo $i
start=$(date +%s); cargo build; echo $(($(date +%s) - start))
x=$(wc -l < a.txt); y=$(wc -l < b.txt); echo $((x - y))
IFS=$'\n'; for i in 1 2; do echo $((i)); done
f() { local n=$1; echo $((n * 2)); }; f 4
f() { echo "$1: $(($2 + 1))"; }; f 3 4
f() { local s="$1 x"; i=$((i + 1)); }; f "$(date)"
a=(1 2 3); echo ${a[1]} $((a[0] + a[2]))
a=(x y); i=1; unset 'a[i]'; echo "${a[0]}"
i=1; unset "a[$i]"; unset 'map[key]'
set -euo pipefail; f() { echo $(($1 + 1)); }; f 1
set -euxo pipefail; set +e; f() { echo $(($1 + 1)); }; f 1
[ $(git rev-parse --short HEAD) = abc ] && echo same
[ $(git rev-parse --abbrev-ref HEAD) = main ] && echo same
[ $(git rev-parse --verify HEAD~2) = abc ] && echo same
echo $(($(grep -c x a.txt) + 1))
n=$(grep -c x "$f"); echo $((n + 1))
x='$foo'; bash -c 'for i in 1 2; do echo $((i + 1)); done'
bash -c 'n=$(wc -l < a.txt); echo $((n + 1))'
re='^[0-9]+$'; [[ $x =~ $re ]] && echo $((x + N))
re='^[0-9]+$'; a=(1 2); n=$(b); echo $((n + a[0]))
root="$PWD"; n=$(ls | wc -l); echo $((n + 1))
x=$(basename "$f"); echo ${x:0:3}
name='$x'; echo ${name:0:3}
sum=0; while read -r n; do sum=$((sum + 1)); done < a.txt; echo '$'$sum"#,
        true,
    );
}
