package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/serve/api"
)

// message is a turn of a conversation.
type message struct {
	Role       string  `json:"role"`
	Content    content `json:"content"`
	Name       string  `json:"name"`
	Reasoning  string  `json:"reasoning_content"`
	ToolCalls  []call  `json:"tool_calls"`
	ToolCallID string  `json:"tool_call_id"`
	Function   *struct {
		Name string `json:"name"`
	} `json:"function_call"`
}

// content is a text, or parts.
type content []part

type part struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"`
	Audio    *struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
}

// UnmarshalJSON reads a text, an array of parts or null.
func (c *content) UnmarshalJSON(data []byte) (err error) {
	*c, err = api.Content(data, func(text string) part { return part{Type: "text", Text: text} })
	return err
}

// call is a tool call of the model.
type call struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// roles maps the roles of the API.
var roles = map[string]talk.Role{
	"system": talk.System, "developer": talk.System, "user": talk.User, "assistant": talk.Assistant, "tool": talk.Tool, "function": talk.Tool,
}

// turns translates the turns of a conversation.
func turns(list []message) (out []talk.Message, media bool, err error) {
	names := map[string]string{} // of calls by their ids
	for i, m := range list {
		at := fmt.Sprintf("messages[%d]", i)
		turn := talk.Message{Name: "", Reasoning: m.Reasoning, CallID: m.ToolCallID}
		var ok bool
		if turn.Role, ok = roles[m.Role]; !ok {
			return nil, false, api.Invalid(at+".role", "%s.role: got %.40q, want system, developer, user, assistant or tool", at, m.Role)
		}
		if m.Function != nil {
			return nil, false, api.Unsupported(at+".function_call", "%s.function_call: use tool_calls", at)
		}
		if m.Content == nil && (turn.Role == talk.System || turn.Role == talk.User) {
			return nil, false, api.Invalid(at+".content", "%s.content: missing", at)
		}
		var shown bool
		if turn.Parts, shown, err = parts(at+".content", m.Content); err != nil {
			return nil, false, err
		}
		media = media || shown
		if turn.Calls, err = calls(at, m, names); err != nil {
			return nil, false, err
		}
		if m.Role == "tool" && m.ToolCallID == "" {
			return nil, false, api.Invalid(at+".tool_call_id", "%s.tool_call_id: missing", at)
		}
		if turn.Role == talk.Tool {
			if turn.Name = names[m.ToolCallID]; turn.Name == "" {
				turn.Name = m.Name
			}
		}
		out = append(out, turn)
	}
	return out, media, nil
}

// calls translates the calls of an assistant and records their names.
func calls(at string, m message, names map[string]string) (out []talk.Call, err error) {
	for j, c := range m.ToolCalls {
		where := fmt.Sprintf("%s.tool_calls[%d]", at, j)
		if c.Function.Name == "" {
			return nil, api.Invalid(where+".function.name", "%s.function.name: missing", where)
		}
		args := json.RawMessage(strings.TrimSpace(c.Function.Arguments))
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		if !json.Valid(args) || args[0] != '{' {
			return nil, api.Invalid(where+".function.arguments", "%s.function.arguments: want the text of a JSON object", where)
		}
		names[c.ID] = c.Function.Name
		out = append(out, talk.Call{ID: c.ID, Name: c.Function.Name, Arguments: args})
	}
	return out, nil
}

// parts translates the parts of a turn.
func parts(at string, list content) (out []talk.Part, media bool, err error) {
	for i, p := range list {
		where := fmt.Sprintf("%s[%d]", at, i)
		one := talk.Part{Type: abi.Text, Text: p.Text}
		switch p.Type {
		case "text", "input_text", "output_text":
		case "refusal":
			one.Text = p.Refusal
		case "image_url", "input_image":
			one, err = picture(where, p.ImageURL)
			media = true
		case "input_audio":
			if p.Audio == nil {
				return nil, false, api.Invalid(where+".input_audio", "%s.input_audio: missing", where)
			}
			one = talk.Part{Type: abi.Audio}
			one.Data, err = decode(where+".input_audio.data", p.Audio.Data)
			media = true
		default:
			return nil, false, api.Unsupported(where+".type", "%s.type: got %.40q, want text, image_url or input_audio", where, p.Type)
		}
		if err != nil {
			return nil, false, err
		}
		out = append(out, one)
	}
	return out, media, nil
}

// picture reads the data of an image's URL. Other URLs are not fetched.
func picture(at string, raw json.RawMessage) (talk.Part, error) {
	var url string
	var nested struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(raw, &url) != nil {
		if err := api.Unmarshal(raw, &nested); err != nil {
			return talk.Part{}, api.Invalid(at+".image_url", "%s.image_url: want {\"url\": \"data:image/png;base64,…\"}", at)
		}
		url = nested.URL
	}
	data, err := DataURL(at+".image_url.url", url)
	return talk.Part{Type: abi.Image, Data: data}, err
}

// DataURL returns the bytes of a data: URL in base64.
func DataURL(at, url string) ([]byte, error) {
	rest, ok := strings.CutPrefix(url, "data:")
	head, data, found := strings.Cut(rest, ",")
	if !ok || !found || !slices.Contains(strings.Split(head, ";"), "base64") {
		return nil, api.Unsupported(at, "%s: want a data: URL in base64; others are not fetched", at)
	}
	return decode(at, data)
}

// decode reads base64, of which at least a byte is needed.
func decode(at, text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, api.Invalid(at, "%s: malformed base64", at)
	}
	if len(data) == 0 {
		return nil, api.Invalid(at, "%s: no data", at)
	}
	return data, nil
}
