package tokenizer_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
)

// Chat templates of which none is the default refuse a conversation and are named.
func TestNoDefaultTemplate(t *testing.T) {
	named, err := tokenizer.FromHuggingFace(hfSample(t), []byte(`{"chat_template":[{"name":"rag","template":"x"},{"name":"a'b","template":"y"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	kvs := append(build(t, spm()).KVs(), gguf.KV{Key: gguf.KeyChatTemplates, Value: []string{"rag", "a'b"}})
	for _, tok := range []*tokenizer.Tokenizer{named, stored(t, kvs)} {
		template, err := chat.Parse(tok.Vocabulary().Template)
		if err != nil {
			t.Fatal(err)
		}
		const want = "2 chat templates (rag), none named default"
		if _, err := template.Render([]chat.Message{{Role: "user", Content: "x"}}, chat.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
