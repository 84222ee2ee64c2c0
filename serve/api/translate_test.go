package api_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

func lastRequest(m *scripted) runner.Request { return m.last.Load().(runner.Request) }

// A conversation with a picture, a call and its result is one request in every wire format.
func TestConversation(t *testing.T) {
	data := base64.StdEncoding.EncodeToString([]byte("picture"))
	args := []byte(`{"c":"Paris"}`)
	want := []talk.Message{
		talk.Text(talk.System, "Be brief."),
		{Role: talk.User, Parts: []talk.Part{{Type: abi.Image, Data: []byte("picture")}, {Type: abi.Text, Text: "hi"}}},
		{Role: talk.Assistant, Calls: []talk.Call{{ID: "1", Name: "w", Arguments: args}}},
		{Role: talk.Tool, Name: "w", CallID: "1", Parts: []talk.Part{{Type: abi.Text, Text: "sunny"}}},
	}
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"developer","content":"Be brief."},
			{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `"}},{"type":"text","text":"hi"}]},
			{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"w","arguments":"{\"c\":\"Paris\"}"}}]},
			{"role":"tool","tool_call_id":"1","content":"sunny"}]}`,
		"/v1/responses": `{"instructions":"Be brief.","input":[
			{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + data + `"},{"type":"input_text","text":"hi"}]},
			{"type":"reasoning","content":[{"type":"reasoning_text","text":"Hm."}]},
			{"type":"function_call","call_id":"1","name":"w","arguments":"{\"c\":\"Paris\"}"},
			{"type":"function_call_output","call_id":"1","output":"sunny"}]}`,
		"/v1/messages": `{"max_tokens":4,"system":"Be brief.","messages":[
			{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}},{"type":"text","text":"hi"}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"w","input":{"c":"Paris"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"sunny"}]}]}]}`,
	} {
		s, m := world(t, nil)
		if w := do(t, s, request("POST", path, body)); w.Code != 200 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		if diff := cmp.Diff(want, lastRequest(m).Messages); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	s, m := world(t, nil)
	do(t, s, request("POST", "/api/chat", `{"messages":[{"role":"user","content":"hi","images":["`+data+`"]}]}`))
	if diff := cmp.Diff(want[1:2], lastRequest(m).Messages); diff != "" {
		t.Error(diff)
	}
}

// Fields reach the preferences of the runner.
func TestPreferences(t *testing.T) {
	s, m := world(t, nil)
	do(t, s, request("POST", "/v1/chat/completions", chatBody("hi", `,"temperature":0.5,"top_p":0.25,"top_k":3,"min_p":0.125,"seed":-1,"stop":"x","repetition_penalty":1.5`)))
	p := lastRequest(m).Preferences
	if p.Temperature != 0.5 || p.TopP != 0.25 || p.TopK != 3 || p.MinP != 0.125 || p.Seed != 1<<64-1 || len(p.Stop) != 1 || p.RepeatPenalty != 1.5 {
		t.Errorf("got %+v", p)
	}
	do(t, s, request("POST", "/v1/completions", `{"prompt":"Once"}`))
	if r := lastRequest(m); !r.Plain || len(r.Inputs) != 1 || r.Messages != nil {
		t.Errorf("got %+v", r)
	}
	do(t, s, request("POST", "/v1/chat/completions", chatBody("hi", chatTool+`,"tool_choice":"none"`)))
	if r := lastRequest(m); len(r.Tools) != 0 || r.ToolsAllowed == nil {
		t.Errorf("got %+v", r)
	}
	for choice, or := range map[string]bool{"auto": true, "required": false, "none": false} {
		do(t, s, request("POST", "/v1/chat/completions", chatBody("hi", chatTool+`,"tool_choice":"`+choice+`","response_format":{"type":"json_object"}`)))
		if p := lastRequest(m).Preferences; p.Grammar == nil || p.OrCalls != or {
			t.Errorf("%s: got a grammar %v, or calls %v, want %v", choice, p.Grammar != nil, p.OrCalls, or)
		}
	}
}

// What would change the meaning of an answer and is not supported is refused by its field.
func TestUnsupported(t *testing.T) {
	s, _ := world(t, nil)
	stops := `,"stop":["` + strings.Repeat(`x","`, 15) + `x"`
	for more, want := range map[string]string{
		`,"logprobs":true,"top_logprobs":20`: "", `,"logprobs":true,"top_logprobs":21`: "top_logprobs", `,"top_logprobs":1`: "top_logprobs", // maxAlternatives
		`,"repetition_penalty":0.01`: "", `,"repetition_penalty":0`: "repetition_penalty", `,"n":16`: "", `,"n":17`: "n", `,"n":0`: "n", `,"n":1`: "", `,"logit_bias":{"1":2}`: "logit_bias", `,"presence_penalty":1`: "presence_penalty", `,"frequency_penalty":-1`: "frequency_penalty",
		`,"presence_penalty":0`: "", `,"functions":[{}]`: "functions", `,"modalities":["audio"]`: "modalities", `,"user":"x","store":true`: "",
		`,"temperature":2`: "", `,"temperature":2.1`: "temperature", `,"temperature":-0.1`: "temperature", `,"temperature":"hot"`: "temperature", `,"top_p":1.5`: "top_p",
		`,"max_tokens":0`: "max_tokens", `,"max_completion_tokens":-1`: "max_completion_tokens", `,"max_tokens":1.5`: "max_tokens", `,"stop":""`: "stop", `,"stop":3`: "stop",
		stops + `]`: "", stops + `,"x"]`: "stop",
		`,"tools":[{"type":"web"}]`: "tools", `,"tool_choice":"required"`: "tool_choice", `,"tool_choice":"some"`: "tool_choice", chatTool + `,"tool_choice":{"type":"function","function":{"name":"v"}}`: "tool_choice",
		`,"response_format":{"type":"xml"}`: "response_format", `,"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"nope"}}}`: "response_format",
		`,"response_format":{"type":"json_schema"}`: "response_format", chatTool + `,"response_format":{"type":"json_object"}`: "",
		`,"model":"other"`: "model", `,"messages":[]`: "messages", `,"messages":[{"role":"x","content":"y"}]`: "messages[0].role",
		`,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://a.example/b.png"}}]}]`: "messages[0].content[0].image_url.url",
		`,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}]`:     "messages[0].content[0].image_url.url",
		`,"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"?"}}]}]`:                 "messages[0].content[0].input_audio.data",
		`,"messages":[{"role":"user"}]`: "messages[0].content", `,"messages":[{"role":"system","content":null},{"role":"user","content":"x"}]`: "messages[0].content",
		`,"messages":[{"role":"user","contents":"x"}]`: "messages[0].content", `,"messages":[{"role":"user","content":""}]`: "", `,"messages":[{"role":"user","content":[]}]`: "",
		`,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"w","arguments":""}}]},{"role":"tool","tool_call_id":"a","content":null}]`: "",
		`,"messages":[{"role":"user","content":5}]`: "messages",
	} {
		body := chatBody("hi", more)
		if rest, ok := strings.CutPrefix(more, `,"messages":`); ok {
			body = `{"messages":` + rest + "}"
		} else if strings.HasPrefix(more, `,"model":`) {
			body = `{"messages":[{"role":"user","content":"hi"}]` + more + "}"
		}
		w := do(t, s, request("POST", "/v1/chat/completions", body))
		status := 400
		if want == "" {
			status = 200
		} else if want == "model" {
			status = 404
		}
		if w.Code != status || want != "" && !strings.Contains(w.Body.String(), `"param":"`+want+`"`) {
			t.Errorf("%s: got %d %s, want %q", more, w.Code, w.Body, want)
		}
	}
}

// A response continues an earlier one of the same key only.
func TestPreviousResponse(t *testing.T) {
	s, m := world(t, nil)
	do(t, s, request("POST", "/v1/responses", `{"input":"hi","instructions":"Once."}`))
	id := "resp_000000000000000000000000"
	if w := do(t, s, request("POST", "/v1/responses", `{"input":"and?","previous_response_id":"`+id+`"}`)); w.Code != 200 {
		t.Fatal(w.Body)
	}
	want := []talk.Message{talk.Text(talk.User, "hi"), talk.Text(talk.Assistant, "Hi there"), talk.Text(talk.User, "and?")}
	if diff := cmp.Diff(want, lastRequest(m).Messages); diff != "" {
		t.Error(diff)
	}
	if w := do(t, s, request("POST", "/v1/responses", `{"input":"and?","previous_response_id":"resp_1"}`)); w.Code != 400 {
		t.Errorf("unknown: got %d", w.Code)
	}
}

// Fields of Ollama's API that would change the answer are refused by name; values without an
// effect are accepted.
func TestUnsupportedOfOllama(t *testing.T) {
	s, _ := world(t, nil)
	for more, want := range map[string]string{
		`,"options":{"presence_penalty":1}`: "options.presence_penalty", `,"options":{"frequency_penalty":-0.5}`: "options.frequency_penalty",
		`,"options":{"mirostat":2}`: "options.mirostat", `,"options":{"typical_p":0.5}`: "options.typical_p", `,"options":{"tfs_z":0.5}`: "options.tfs_z",
		`,"logprobs":true`: "logprobs", `,"logprobs":false,"options":{"presence_penalty":0,"mirostat":0,"typical_p":1,"tfs_z":1,"num_ctx":64}`: "",
		`,"template":"{{ .Prompt }}"`: "template", `,"context":[1]`: "context", `,"raw":true,"system":"x"`: "system",
		`,"template":"","context":[],"system":"x"`: "", `,"raw":true`: "",
	} {
		status := 200
		if want != "" {
			status = 400
		}
		w := do(t, s, request("POST", "/api/generate", `{"model":"m","prompt":"hi","stream":false`+more+"}"))
		if w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("generate %s: got %d %s, want %q", more, w.Code, w.Body, want)
		}
		if !strings.Contains(more, "options") && !strings.Contains(more, "logprobs") {
			continue
		}
		if w = do(t, s, request("POST", "/api/chat", `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":false`+more+"}")); w.Code != status {
			t.Errorf("chat %s: got %d %s, want %q", more, w.Code, w.Body, want)
		}
	}
}

// A text completion has no log probabilities without echo, whatever their number.
func TestLegacyLogprobs(t *testing.T) {
	s, _ := world(t, nil)
	for more, status := range map[string]int{`,"logprobs":null`: 200, `,"logprobs":0`: 400, `,"logprobs":1`: 400} {
		if w := do(t, s, request("POST", "/v1/completions", `{"prompt":"hi"`+more+"}")); w.Code != status {
			t.Errorf("%s: got %d %s, want %d", more, w.Code, w.Body, status)
		}
	}
}
