package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// hfConfig is the part of tokenizer_config.json in use.
type hfConfig struct {
	Class          string             `json:"tokenizer_class"`
	Legacy         *bool              `json:"legacy"`
	AddPrefixSpace *bool              `json:"add_prefix_space"`
	Lower          *bool              `json:"do_lower_case"`
	Accents        *bool              `json:"strip_accents"`
	Han            *bool              `json:"tokenize_chinese_chars"`
	ExtraIDs       *int               `json:"extra_ids"` // of T5
	KeepAccents    *bool              `json:"keep_accents"`
	SplitSpecial   bool               `json:"split_special_tokens"`
	FixMistral     bool               `json:"fix_mistral_regex"`
	Decoder        map[string]hfAdded `json:"added_tokens_decoder"`
	Chat           json.RawMessage    `json:"chat_template"`

	// names are the tokens with a role, such as bos_token, and order their keys as
	// the files list them; extra are the other tokens.
	names map[string]hfAdded
	order []string
	extra []hfAdded
}

// roleKeys are the roles that transformers defines, in its order.
var roleKeys = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

// readHFConfig reads tokenizer_config.json and, if it lists no added tokens,
// special_tokens_map.json and added_tokens.json.
func readHFConfig(f Transformers) (*hfConfig, error) {
	c := &hfConfig{names: map[string]hfAdded{}}
	if err := c.read(f.Config, true); err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer_config.json: %w", err)
	}
	if c.Class == "" {
		c.Class = f.Class
	}
	if c.Decoder != nil {
		return c, nil
	}
	if err := c.read(f.SpecialTokens, false); err != nil {
		return nil, fmt.Errorf("tokenizer: special_tokens_map.json: %w", err)
	}
	if err := c.older(f.AddedTokens); err != nil {
		return nil, fmt.Errorf("tokenizer: added_tokens.json: %w", err)
	}
	return c, nil
}

// read reads a file, which may be missing. The tokens of special_tokens_map.json with
// roles that transformers does not define come first, and do not replace others.
func (c *hfConfig) read(data []byte, config bool) error {
	if data == nil {
		return nil
	}
	raw, keys, err := ordered(data)
	if err == nil && config {
		err = json.Unmarshal(data, c)
	}
	if err != nil || config {
		return errors.Join(err, c.tokens(raw, keys))
	}
	first, more := *c, &hfConfig{names: map[string]hfAdded{}}
	err = more.tokens(raw, keys)
	c.names, c.order, c.extra = map[string]hfAdded{}, nil, append(slices.Clip(c.extra), more.extra...)
	for _, key := range more.order {
		if raw[key] != nil {
			c.name(key, more.names[key])
		}
	}
	for _, key := range first.order {
		if _, ok := c.names[key]; !ok || !slices.Contains(roleKeys, key) {
			c.name(key, first.names[key])
		}
	}
	for _, key := range more.order {
		if raw[key] == nil { // of the mapping extra_special_tokens
			c.name(key, more.names[key])
		}
	}
	return err
}

// older reads added_tokens.json, which has the ids of tokens.
func (c *hfConfig) older(data []byte) error {
	if data == nil {
		return nil
	}
	var ids map[string]int
	if err := json.Unmarshal(data, &ids); err != nil {
		return err
	}
	special := map[string]bool{}
	for _, a := range c.names {
		special[a.Content] = true
	}
	for _, a := range c.extra {
		special[a.Content] = true
	}
	c.Decoder = map[string]hfAdded{}
	for text, id := range ids {
		c.Decoder[strconv.Itoa(id)] = hfAdded{Content: text, Special: special[text]}
	}
	if len(c.Decoder) != len(ids) {
		return errors.New("two tokens have the same id")
	}
	return nil
}

// ordered parses a JSON object and returns its keys in their order, which is the
// order of the tokens that transformers adds.
func ordered(data []byte) (raw map[string]json.RawMessage, keys []string, err error) {
	if err := json.Unmarshal(data, &raw); err != nil || raw == nil {
		return nil, nil, err
	}
	listed := make(map[string]bool, len(raw))
	dec := json.NewDecoder(bytes.NewReader(data))
	_, err = dec.Token() // the brace
	for err == nil && dec.More() {
		var key json.Token
		if key, err = dec.Token(); err != nil {
			break
		}
		if name := key.(string); !listed[name] { // valid JSON: a string
			listed[name] = true
			keys = append(keys, name)
		}
		var skipped json.RawMessage
		err = dec.Decode(&skipped)
	}
	return raw, keys, err
}

// name sets the token with a role.
func (c *hfConfig) name(key string, a hfAdded) {
	if _, ok := c.names[key]; !ok {
		c.order = append(c.order, key)
	}
	c.names[key] = a
}

// tokens reads the keys that name special tokens.
func (c *hfConfig) tokens(raw map[string]json.RawMessage, keys []string) error {
	for _, key := range keys {
		value := raw[key]
		if !strings.HasSuffix(key, "_token") {
			continue
		}
		if string(value) == "null" {
			c.name(key, hfAdded{}) // no token, whatever the default of the class
		}
		if value[0] != '"' && value[0] != '{' {
			continue // add_bos_token is a flag
		}
		a, err := hfToken(value)
		if err != nil {
			return fmt.Errorf("key %s: %w", key, err)
		}
		c.name(key, a)
	}
	for _, key := range []string{"extra_special_tokens", "additional_special_tokens"} {
		value := raw[key]
		if len(value) == 0 || string(value) == "null" || string(value) == "[]" || string(value) == "{}" {
			continue
		}
		var list []json.RawMessage
		if value[0] == '{' {
			named, names, err := ordered(value)
			if err != nil {
				return fmt.Errorf("key %s: %w", key, err)
			}
			for _, name := range names { // roles, such as image_token
				a, err := hfToken(named[name])
				if err != nil {
					return fmt.Errorf("key %s: %w", key, err)
				}
				c.name(name, a)
			}
		} else if err := json.Unmarshal(value, &list); err != nil {
			return fmt.Errorf("key %s: %w", key, err)
		}
		for _, one := range list {
			a, err := hfToken(one)
			if err != nil {
				return fmt.Errorf("key %s: %w", key, err)
			}
			c.extra = append(c.extra, a)
		}
		break // the newer key replaces the older one
	}
	return nil
}

// hfToken reads a special token: its text, or an object.
func hfToken(b []byte) (hfAdded, error) {
	a := hfAdded{}
	if b[0] == '{' {
		err := json.Unmarshal(b, &a)
		a.Special = true
		return a, err
	}
	no := false
	a.Special, a.Normalized = true, &no
	return a, json.Unmarshal(b, &a.Content)
}

// add adds the tokens that tokenizer.json lacks.
func (c *hfConfig) add(to *hfAdder) error {
	ids := map[int]hfAdded{}
	for text, a := range c.Decoder {
		id, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("added tokens: bad id %q", text)
		}
		ids[id] = a
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if _, ok := to.listed[id]; !ok {
			if err := to.add(ids[id], id); err != nil {
				return fmt.Errorf("added tokens: %w", err)
			}
		}
	}
	keys := slices.Clone(roleKeys)
	for _, key := range c.order {
		if !slices.Contains(roleKeys, key) {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		if a := c.names[key]; a.Content != "" {
			if err := to.add(a, -1); err != nil {
				return fmt.Errorf("key %s: %w", key, err)
			}
		}
	}
	for _, a := range c.extra {
		if err := to.add(a, -1); err != nil {
			return fmt.Errorf("special tokens: %w", err)
		}
	}
	return nil
}

// roles sets the special ids and the chat template.
func (c *hfConfig) roles(v *Vocabulary) error {
	for key, id := range map[string]*int32{"bos_token": &v.Special.BOS, "eos_token": &v.Special.EOS, "pad_token": &v.Special.Padding} {
		if a := c.names[key]; a.Content != "" {
			*id = v.find(a.Content)
		}
	}
	template, err := hfTemplate(c.Chat)
	v.Template, v.TemplateBOS = template, true
	return err
}

// hfAdder adds special tokens as Hugging Face's library does, which assigns ids
// itself: the id in the model's vocabulary, or the next one.
type hfAdder struct {
	v      *Vocabulary
	vocab  map[string]int
	ids    map[string]int // of added tokens
	listed map[int]bool   // ids in tokenizer.json
	next   int
}

// add adds a token. If want is not negative, it is the id that the file states.
func (d *hfAdder) add(a hfAdded, want int) error {
	if a.Content == "" {
		return fmt.Errorf("added token without text and with id %d", want)
	}
	if want >= 0 {
		if d.listed == nil {
			d.listed = map[int]bool{}
		}
		d.listed[want] = true
	}
	id, again := d.ids[a.Content]
	if !again {
		var ok bool
		if id, ok = d.vocab[a.Content]; !ok {
			id = max(d.next, len(d.vocab))
		}
	}
	if want >= 0 && id != want {
		return fmt.Errorf("added token %q has the id %d, transformers gives it %d", a.Content, want, id)
	}
	if again {
		if a.Special && d.v.Tokens[id].Type == UserDefined {
			d.v.Tokens[id].Type = Control
		}
		return nil
	}
	if id >= maxTokens {
		return fmt.Errorf("added token %q: id %d exceeds %d tokens", a.Content, id, maxTokens)
	}
	for id >= len(d.v.Tokens) {
		d.v.Tokens = append(d.v.Tokens, Token{})
	}
	if text := d.v.Tokens[id].Text; text != "" && text != a.Content {
		return fmt.Errorf("added token %q has the id %d of %q", a.Content, id, text)
	}
	t := Token{Text: a.Content, Type: UserDefined, Flags: a.flags(), Score: d.v.Tokens[id].Score}
	if a.Special {
		t.Type = Control
	}
	d.v.Tokens[id], d.ids[a.Content], d.next = t, id, max(d.next, id+1)
	return nil
}

// hfTemplate takes the chat template, the one named default where there are
// several.
func hfTemplate(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if raw[0] != '[' {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", err
	}
	names := make([]string, 0, len(list))
	for _, t := range list {
		if t.Name == "default" {
			return t.Template, nil
		}
		names = append(names, t.Name)
	}
	return noDefault(names), nil
}

// noDefault returns a template that refuses every conversation: there are others, of
// which none is the default, as in transformers.
func noDefault(names []string) string {
	if len(names) == 0 {
		return ""
	}
	var plain []string
	for _, name := range names[:min(len(names), 8)] {
		if name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == "" {
			plain = append(plain, name)
		}
	}
	return fmt.Sprintf("{{ raise_exception('%d chat templates (%s), none named default: choose one as chat_template.jinja') }}", len(names), strings.Join(plain, ", "))
}
