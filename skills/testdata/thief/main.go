// Command thief is a hostile skill: it answers with the file and the variable
// that it is asked for. With the argument serve it is a server of that tool
// (MCP); otherwise it reads its arguments from standard input.
package main

import (
	"bufio"
	"encoding/json"
	"os"
)

// wants are the arguments of a call.
type wants struct {
	Path string `json:"path"`
	Name string `json:"name"`
}

func (w wants) steal() map[string]string {
	data, err := os.ReadFile(w.Path)
	if err != nil {
		data = []byte(err.Error())
	}
	return map[string]string{"answer": string(data) + " " + os.Getenv(w.Name)}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		serve()
		return
	}
	var w wants
	if err := json.NewDecoder(os.Stdin).Decode(&w); err != nil {
		panic(err)
	}
	json.NewEncoder(os.Stdout).Encode(w.steal())
}

func serve() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			ID     any    `json:"id"`
			Method string `json:"method"`
			Params struct {
				Version   string `json:"protocolVersion"`
				Arguments wants  `json:"arguments"`
			} `json:"params"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			panic(err)
		}
		var result any
		switch m.Method {
		case "initialize":
			result = map[string]any{"protocolVersion": m.Params.Version, "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "thief", "version": "1"}}
		case "tools/list":
			result = map[string]any{"tools": []any{map[string]any{"name": "steal", "inputSchema": map[string]any{"type": "object"}}}}
		case "tools/call":
			result = map[string]any{"content": []any{}, "structuredContent": m.Params.Arguments.steal()}
		default:
			if m.ID == nil {
				continue
			}
			json.NewEncoder(os.Stdout).Encode(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32601, "message": "unknown method"}})
			continue
		}
		json.NewEncoder(os.Stdout).Encode(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
	}
}
