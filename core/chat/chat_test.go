package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mm-abi.org/mm/core/chat/jinja"
)

// chatML is the ChatML format: every turn between <|im_start|> and <|im_end|>.
const chatML = `{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// render compiles a template and renders a conversation.
func render(template string, messages []Message, opt Options) (string, error) {
	t, err := Parse(template)
	if err != nil {
		return "", err
	}
	return t.Render(messages, opt)
}

// TestFamilies renders the formats of six families of models with equivalent
// templates.
func TestFamilies(t *testing.T) {
	turns := []Message{{Role: "system", Content: "Be kind."}, {Role: "user", Content: " Hi "}, {Role: "assistant", Content: "Hello"}, {Role: "user", Content: "Bye"}}
	for _, c := range []struct{ name, template, want string }{
		{"ChatML (SmolLM2, Qwen2)", chatML,
			"<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"},
		{"Llama 2", `{% if messages[0].role == 'system' %}{% set sys = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}{% set messages = messages[1:] %}{% else %}{% set sys = '' %}{% endif %}` +
			`{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}` +
			`{% if m.role == 'user' %}{{ bos_token ~ '[INST] ' ~ (sys if loop.first else '') ~ m.content.strip() ~ ' [/INST]' }}{% else %}{{ ' ' ~ m.content.strip() ~ ' ' ~ eos_token }}{% endif %}{% endfor %}`,
			"<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Bye [/INST]"},
		{"Llama 3", `{%- for m in messages %}{{- (bos_token if loop.index0 == 0 else '') + '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' }}{%- endfor %}` +
			`{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}`,
			"<s><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
		{"Zephyr", "{% for m in messages %}\n{{ '<|' + m.role + '|>\\n' + m.content + eos_token }}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
			"<|system|>\nBe kind.</s>\n<|user|>\n Hi </s>\n<|assistant|>\nHello</s>\n<|user|>\nBye</s>\n<|assistant|>\n"},
		{"Gemma", `{{ bos_token }}{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}{% set ns.system = m.content %}{% else %}` +
			`<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}{{ '\n' }}{% if ns.system %}{{ ns.system + '\n\n' }}{% set ns.system = '' %}{% endif %}{{ m.content | trim }}<end_of_turn>{{ '\n' }}{% endif %}{% endfor %}` +
			`{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}`,
			"<s><start_of_turn>user\nBe kind.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n"},
		{"Phi 3", `{% for m in messages %}{{ '<|' ~ m.role ~ '|>\n' ~ m.content ~ '<|end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}`,
			"<|system|>\nBe kind.<|end|>\n<|user|>\n Hi <|end|>\n<|assistant|>\nHello<|end|>\n<|user|>\nBye<|end|>\n<|assistant|>\n"},
		{"Mistral", `{{ bos_token }}{% for m in messages if m.role != 'system' %}{% if m.role == 'user' %}[INST] {{ (messages[0].content + '\n\n' if loop.last and messages[0].role == 'system' else '') + m.content }} [/INST]{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}`,
			"<s>[INST]  Hi  [/INST] Hello</s>[INST] Be kind.\n\nBye [/INST]"},
	} {
		got, err := render(c.template, turns, Options{AddGenerationPrompt: true, BOS: "<s>", EOS: "</s>"})
		if err != nil || got != c.want {
			t.Errorf("%s:\n got  %q, %v\n want %q", c.name, got, err, c.want)
		}
	}
}

// TestRefusal covers the errors of a template that refuses, and of variables
// that are not JSON.
func TestRefusal(t *testing.T) {
	_, err := render("{{ raise_exception('no ' ~ messages|length ~ ' turns') }}", nil, Options{})
	var raised *jinja.RaisedError
	if !errors.As(err, &raised) || raised.Message != "no 0 turns" {
		t.Errorf("%v", err)
	}
	if _, err := render("{{ 'x' * 99999999 }}", nil, Options{}); !errors.Is(err, jinja.ErrOutput) {
		t.Errorf("%v", err)
	}
	for want, opt := range map[string]Options{
		"variable tools: unexpected EOF":             {Tools: []json.RawMessage{json.RawMessage("{")}},
		"variable x: unsupported Go type *testing.T": {Vars: map[string]any{"x": t}},
	} {
		if _, err := render("x", nil, opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, should hold %q", err, want)
		}
	}
	call := Message{ToolCalls: []ToolCall{{Name: "f", Arguments: json.RawMessage("[")}}}
	if _, err := render("x", []Message{call}, Options{}); err == nil || !strings.Contains(err.Error(), "variable messages: unexpected EOF") {
		t.Errorf("%v", err)
	}
}

func Example() {
	const template = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</s>\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
	t, err := Parse(template)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := t.Render([]Message{{Role: "user", Content: " Hello "}}, Options{AddGenerationPrompt: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(text)
	// Output:
	// <user>Hello</s>
	// <assistant>
}
