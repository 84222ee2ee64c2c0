package hosted

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/talk"
)

// gemini is the form of Gemini's generateContent.
type gemini struct{}

func (gemini) authorize(h http.Header, key string) {
	if key != "" {
		h.Set("X-Goog-Api-Key", key)
	}
}

func (gemini) request(m *Model, x *exchange) (string, any, error) {
	body, config := map[string]any{}, map[string]any{}
	var contents []map[string]any
	system := ""
	for _, t := range x.turns {
		if t.Role == talk.System {
			system += textOf(t)
			continue
		}
		role, parts, err := geminiTurn(t, x.signatures)
		if err != nil {
			return "", nil, err
		}
		contents = joined(contents, role, "parts", parts)
	}
	body["contents"] = contents
	if system != "" {
		body["systemInstruction"] = map[string]any{"parts": []any{map[string]string{"text": system}}}
	}
	p := x.prefs
	if p.MaxTokens > 0 {
		config["maxOutputTokens"] = p.MaxTokens
	}
	if p.Temperature > 0 {
		config["temperature"] = p.Temperature
	}
	if p.TopP > 0 && p.TopP < 1 {
		config["topP"] = p.TopP
	}
	if p.TopK > 0 {
		config["topK"] = p.TopK
	}
	if p.Seed != 0 {
		config["seed"] = p.Seed // at most mostSeed
	}
	if len(p.Stop) > 0 {
		config["stopSequences"] = p.Stop
	}
	if len(config) > 0 {
		body["generationConfig"] = config
	}
	var tools []any
	for _, d := range x.tools {
		tools = append(tools, map[string]any{"name": d.Name, "description": d.Description, "parametersJsonSchema": schemaOf(d)})
	}
	if tools != nil {
		body["tools"] = []any{map[string]any{"functionDeclarations": tools}}
	}
	name := strings.TrimPrefix(m.opt.Model, "models/")
	return "/models/" + url.PathEscape(name) + ":streamGenerateContent?alt=sse", body, nil
}

// geminiTurn returns a turn as parts. The marks of calls are those of the provider.
func geminiTurn(t talk.Message, marks map[string]string) (role string, parts []any, err error) {
	if t.Role == talk.Tool {
		result := json.RawMessage(textOf(t))
		if object := map[string]json.RawMessage(nil); json.Unmarshal(result, &object) != nil {
			text, err := json.Marshal(map[string]string{"result": textOf(t)})
			if err != nil {
				return "", nil, err
			}
			result = text
		}
		return "user", []any{map[string]any{"functionResponse": map[string]any{"name": t.Name, "response": result}}}, nil
	}
	if role = "user"; t.Role == talk.Assistant {
		role = "model"
	}
	for _, p := range t.Parts {
		if p.Type == abi.Text || p.Type == "" {
			parts = append(parts, map[string]any{"text": p.Text})
			continue
		}
		f, err := mediumOf(p, Gemini, append([]string{"audio/wav", "audio/mpeg", "application/ogg"}, pictures...)...)
		if err != nil {
			return "", nil, err
		}
		parts = append(parts, map[string]any{"inlineData": map[string]string{"mimeType": f.kind, "data": f.data}})
	}
	for _, c := range t.Calls {
		one := map[string]any{"functionCall": map[string]any{"name": c.Name, "args": c.Arguments}}
		if mark := marks[c.ID]; mark != "" {
			one["thoughtSignature"] = mark
		}
		parts = append(parts, one)
	}
	return role, parts, nil
}

func (gemini) event(x *exchange, data []byte) (bool, error) {
	var e struct {
		Candidates []struct {
			Content struct {
				Parts []struct {
					Text    string `json:"text"`
					Thought bool   `json:"thought"`
					Mark    string `json:"thoughtSignature"`
					Call    *struct {
						Name string          `json:"name"`
						Args json.RawMessage `json:"args"`
					} `json:"functionCall"`
				} `json:"parts"`
			} `json:"content"`
			Finish string `json:"finishReason"`
		} `json:"candidates"`
		Feedback struct {
			Blocked string `json:"blockReason"`
		} `json:"promptFeedback"`
		Usage struct {
			Prompt    int `json:"promptTokenCount"`
			Cached    int `json:"cachedContentTokenCount"`
			Generated int `json:"candidatesTokenCount"`
			Thoughts  int `json:"thoughtsTokenCount"`
		} `json:"usageMetadata"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return false, err
	}
	if e.Feedback.Blocked != "" {
		return false, &Refusal{Code: e.Feedback.Blocked, Message: "the provider blocked the prompt: " + shown(e.Feedback.Blocked)}
	}
	for _, c := range e.Candidates[:min(1, len(e.Candidates))] {
		for _, p := range c.Content.Parts {
			add := x.write
			if p.Thought {
				add = x.think
			}
			if err := add(p.Text); err != nil {
				return false, err
			}
			if p.Call == nil {
				continue
			}
			one, err := x.call(len(x.calls))
			if err != nil {
				return false, err
			}
			one.id = x.id(len(x.calls) - 1)
			x.signatures[one.id] = p.Mark
			if err := errors.Join(x.grow(len(p.Mark)), x.argue(one, p.Call.Name, string(p.Call.Args))); err != nil {
				return false, err
			}
		}
		x.ended(c.Finish)
	}
	if e.Usage.Prompt > 0 {
		x.usage = usage{e.Usage.Prompt, e.Usage.Cached, e.Usage.Generated + e.Usage.Thoughts}
	}
	return false, nil
}
