#!/usr/bin/env bash
# A scripted MCP server over standard input and output. MODE names what it does; LOG is the file that gets each message; while HOLD
# exists, the server starts slowly.
set -u
mode=${MODE:-}
one='{"name":"echo","description":"Says it again","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}'
two='{"name":"env","description":"Its environment","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}'
tools="$one,$two"
more=''
prompts='{"name":"greet","description":"Greets someone","arguments":[{"name":"name","required":true},{"name":"tone"}]},{"name":"two parts"},{"name":"picture"},{"name":"fails"},{"name":"dies"}'

answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
text() { answer '{"content":[{"type":"text","text":"'"$1"'"}]}'; }
# A string of $1 bytes.
bytes() { head -c "$1" /dev/zero | tr '\0' a; }

case $mode in
    garbage) while :; do echo "this is no message"; done ;;
    greeting) echo "Welcome to the server!" ;;
    flood) (while :; do echo "a line of the error output, again and again"; done) >&2 & ;;
    children) (sleep 1000 & exec sleep 1000) >/dev/null & ;;
    slow) sleep "${DELAY:-2}" ;;
    exits) echo "no database" >&2; exit 3 ;;
    many) tools=''; for n in {1..500}; do tools+=",${one/echo/tool_$n}"; done; tools=${tools:1} ;;
    twenty)
        tools=''
        for verb in create get list update delete; do
            for thing in issue pull_request branch comment; do
                tools+=",{\"name\":\"${verb}_$thing\",\"description\":\"${verb^} a ${thing/_/ } of the repository. It returns the whole object with its id, author and dates.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"owner\":{\"type\":\"string\",\"description\":\"The owner of the repository\"},\"repo\":{\"type\":\"string\",\"description\":\"The name of the repository\"},\"number\":{\"type\":\"integer\",\"description\":\"The number of the $thing\"},\"state\":{\"type\":\"string\",\"enum\":[\"open\",\"closed\",\"all\"]}},\"required\":[\"owner\",\"repo\"]}}"
            done
        done
        tools=${tools:1}
        ;;
    large) tools="{\"name\":\"large\",\"description\":\"$(bytes 1000000)\",\"inputSchema\":{\"type\":\"object\"}}" ;;
    schemaless) tools="$one,{\"name\":\"free\"}" ;;
    strange) tools='{"name":"strange","inputSchema":{"type":"object","properties":{"a":{"$ref":"https://example.com/x.json"}}}}' ;;
    colliding) tools="${one/echo/a.b},${one/echo/a b},${one/echo/a_b},${one/echo/$(bytes 100)}" ;;
    offers) more=',"prompts":{"listChanged":true},"resources":{}' ;;
    renamed) tools=${one/echo/shout} ;;
esac
[ ! -e "${HOLD:-}" ] || sleep 2
[ -z "${STARTS:-}" ] || echo started >>"$STARTS"

while read -r line; do
    [ -z "${LOG:-}" ] || printf '%s\n' "$line" >>"$LOG"
    id=''
    [[ $line =~ \"id\":([0-9]+) ]] && id=${BASH_REMATCH[1]}
    case $line in
        *'"method":"initialize"'*)
            answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}'"$more"'},"serverInfo":{"name":"test","version":"1"}}'
            ;;
        *'"method":"notifications/initialized"'*)
            [ "$mode" != roots ] || printf '{"jsonrpc":"2.0","id":"%s","method":"roots/list"}\n' "$PWD"
            ;;
        *'"method":"tools/list"'*) answer "{\"tools\":[$tools]}" ;;
        *'"method":"tools/call"'*)
            case "$mode $line" in
                'dies '*) exit 1 ;;
                'writes '*) echo written >made.txt; text written ;;
                'hangs '*) ;;
                'sleeps '*) (sleep 0.5; text slept) & ;;
                'fails '*) answer '{"content":[{"type":"text","text":"no such table"}],"isError":true}' ;;
                'refuses '*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"wrong arguments"}}\n' "$id" ;;
                'huge '*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' "$id"; bytes 50000000; printf '"}]}}\n' ;;
                'image '*) answer '{"content":[{"type":"text","text":"a dot"},{"type":"image","mimeType":"image/png","data":"'"$PNG"'"}]}' ;;
                'structured '*) answer '{"content":[{"type":"text","text":"{\"n\": 1}"}],"structuredContent":{"n":1}}' ;;
                'odd '*) answer '{"content":[{"type":"hologram","text":"odd"}]}' ;;
                'changes '*)
                    tools="$one,${one/echo/late}"
                    echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
                    # The call is answered once the client asks for the new list.
                    call=$id
                    read -r line
                    [[ $line =~ \"id\":([0-9]+) ]] && id=${BASH_REMATCH[1]}
                    answer "{\"tools\":[$tools]}"
                    id=$call
                    text changed
                    ;;
                *'"name":"env"'*) text "$(env | tr '\n"\\' '   ')" ;;
                *) [[ $line =~ \"arguments\":(\{.*\})\}\} ]]; said=${BASH_REMATCH[1]:-}; text "${said//\"/\\\"}" ;;
            esac
            ;;
        *'"method":"prompts/list"'*) answer "{\"prompts\":[$prompts]}" ;;
        *'"method":"resources/list"'*) answer '{"resources":[{"uri":"note:///a","name":"a"},{"uri":"note:///huge","name":"huge"}]}' ;;
        *'"method":"prompts/get"'*)
            case $line in
                *'"name":"greet"'*)
                    [[ $line =~ \"arguments\":(\{[^}]*\}) ]]
                    said="Greet as told: ${BASH_REMATCH[1]}"
                    answer '{"messages":[{"role":"user","content":{"type":"text","text":"'"${said//\"/\\\"}"'"}}]}'
                    ;;
                *'"name":"two parts"'*) answer '{"messages":[{"role":"user","content":{"type":"text","text":"Who?"}},{"role":"assistant","content":{"type":"text","text":"Me."}}]}' ;;
                *'"name":"picture"'*) answer '{"messages":[{"role":"user","content":{"type":"image","mimeType":"image/png","data":"'"$PNG"'"}},{"role":"user","content":{"type":"text","text":"What is it?"}}]}' ;;
                *'"name":"dies"'*) echo "out of ink" >&2; exit 1 ;;
                *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such user"}}\n' "$id" ;;
            esac
            ;;
        *'"method":"resources/read"'*)
            case $line in
                *'note:///a"'*) answer '{"contents":[{"uri":"note:///a","text":"one of the note\ntwo"}]}' ;;
                *note:///huge*) printf '{"jsonrpc":"2.0","id":%s,"result":{"contents":[{"uri":"note:///huge","text":"begins ' "$id"; bytes 50000000; printf ' ends"}]}}\n' ;;
                *note:///orders*) answer '{"contents":[{"uri":"note:///orders","text":"Do not change anything until I say so."}]}' ;;
                *note:///binary*) answer '{"contents":[{"uri":"note:///binary","mimeType":"application/pdf","blob":"AAAA"}]}' ;;
                *note:///picture*) answer '{"contents":[{"uri":"note:///picture","mimeType":"image/png","blob":"'"$PNG"'"}]}' ;;
                *note:///dies*) exit 1 ;;
                *note:///hangs*) ;;
                *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"Resource not found"}}\n' "$id" ;;
            esac
            ;;
        *'"method":"ping"'*) answer '{}' ;;
    esac
done
