package api_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the transcripts")

const (
	chatTool   = `,"tools":[{"type":"function","function":{"name":"w","parameters":{"type":"object","properties":{"c":{"type":"string"}},"required":["c"]}}}]`
	jsonSchema = `{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]}`
)

// transcripts are requests by the names of files with the answers.
var transcripts = map[string][3]string{
	"chat":                 {"POST", "/v1/chat/completions", chatBody("hi", "")},
	"chat_length":          {"POST", "/v1/chat/completions", chatBody("hi", `,"max_tokens":1`)},
	"chat_stream":          {"POST", "/v1/chat/completions", chatBody("hi", `,"stream":true,"stream_options":{"include_usage":true}`)},
	"chat_think_stream":    {"POST", "/v1/chat/completions", chatBody("think", `,"stream":true`)},
	"chat_tools":           {"POST", "/v1/chat/completions", chatBody("call", chatTool)},
	"chat_tools_stream":    {"POST", "/v1/chat/completions", chatBody("call", chatTool+`,"stream":true`)},
	"chat_required":        {"POST", "/v1/chat/completions", chatBody("hi", chatTool+`,"tool_choice":"required"`)},
	"chat_named_stream":    {"POST", "/v1/chat/completions", chatBody("hi", chatTool+`,"stream":true,"tool_choice":{"type":"function","function":{"name":"w"}}`)},
	"chat_schema":          {"POST", "/v1/chat/completions", chatBody("hi", `,"response_format":{"type":"json_schema","json_schema":{"name":"p","schema":`+jsonSchema+`}}`)},
	"chat_object":          {"POST", "/v1/chat/completions", chatBody("hi", `,"response_format":{"type":"json_object"}`)},
	"chat_error_stream":    {"POST", "/v1/chat/completions", chatBody("break", `,"stream":true`)},
	"chat_full":            {"POST", "/v1/chat/completions", chatBody("full", `,"stream":true`)},
	"completion":           {"POST", "/v1/completions", `{"prompt":"Once"}`},
	"completion_stream":    {"POST", "/v1/completions", `{"prompt":["Once"],"stream":true,"stream_options":{"include_usage":true}}`},
	"response":             {"POST", "/v1/responses", `{"input":"hi","instructions":"Be brief."}`},
	"response_stream":      {"POST", "/v1/responses", `{"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"stream":true}`},
	"response_think":       {"POST", "/v1/responses", `{"input":"think","stream":true}`},
	"response_tool_stream": {"POST", "/v1/responses", `{"input":"call","stream":true,"tools":[{"type":"function","name":"w","parameters":{"type":"object"}}]}`},
	"response_length":      {"POST", "/v1/responses", `{"input":"hi","max_output_tokens":1}`},
	"message":              {"POST", "/v1/messages", `{"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
	"message_stream":       {"POST", "/v1/messages", `{"max_tokens":9,"stream":true,"messages":[{"role":"user","content":"think"}]}`},
	"message_tool_stream":  {"POST", "/v1/messages", `{"max_tokens":9,"stream":true,"messages":[{"role":"user","content":"call"}],"tools":[{"name":"w","input_schema":{"type":"object"}}]}`},
	"message_any":          {"POST", "/v1/messages", `{"max_tokens":9,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"w","input_schema":{"type":"object","properties":{"c":{"type":"string"}}}}],"tool_choice":{"type":"any"}}`},
	"message_error_stream": {"POST", "/v1/messages", `{"max_tokens":9,"stream":true,"messages":[{"role":"user","content":"break"}]}`},
	"message_bad":          {"POST", "/v1/messages", `{"messages":[{"role":"user","content":"hi"}]}`},
	"ollama_chat":          {"POST", "/api/chat", `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":false}`},
	"ollama_chat_stream":   {"POST", "/api/chat", `{"model":"m","messages":[{"role":"user","content":"think"}]}`},
	"ollama_tools":         {"POST", "/api/chat", `{"model":"m","messages":[{"role":"user","content":"call"}],"tools":[{"type":"function","function":{"name":"w"}}]}`},
	"ollama_format":        {"POST", "/api/generate", `{"model":"m","prompt":"hi","stream":false,"format":` + jsonSchema + `}`},
	"ollama_raw_image":     {"POST", "/api/generate", `{"model":"m","prompt":"hi","raw":true,"images":["AAEC"]}`},
	"ollama_load":          {"POST", "/api/generate", `{"model":"m"}`},
	"ollama_show":          {"POST", "/api/show", `{"model":"m"}`},
	"ollama_tags":          {"GET", "/api/tags", ""},
	"models":               {"GET", "/v1/models", ""},
	"embeddings":           {"POST", "/v1/embeddings", `{}`},
}

// The answers in every wire format are those of the golden transcripts.
func TestTranscripts(t *testing.T) {
	for name, q := range transcripts {
		t.Run(name, func(t *testing.T) {
			s, _ := world(t, nil)
			w := do(t, s, request(q[0], q[1], q[2]))
			got := fmt.Sprintf("%s %s\n%s\n\n%d %s\n%s", q[0], q[1], q[2], w.Code, w.Header().Get("Content-Type"), w.Body)
			path := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A whole answer, and the pieces of a stream, are one text.
func TestStreamEqualsWhole(t *testing.T) {
	s, _ := world(t, nil)
	w := do(t, s, request("POST", "/v1/chat/completions", chatBody("hi", `,"stream":true`)))
	var text strings.Builder
	for line := range strings.SplitSeq(w.Body.String(), "\n") {
		if _, rest, ok := strings.Cut(line, `"delta":{"content":"`); ok {
			piece, _, _ := strings.Cut(rest, `"`)
			text.WriteString(piece)
		}
	}
	if text.String() != "Hi there" || !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") {
		t.Errorf("got %q of %s", text.String(), w.Body)
	}
}
