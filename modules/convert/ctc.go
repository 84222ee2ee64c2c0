package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx/tower"
)

// letters is the tokenizer_config.json of a Wav2Vec2CTCTokenizer.
type letters struct {
	Pad       json.RawMessage `json:"pad_token"`
	Delimiter *string         `json:"word_delimiter_token"`
	Language  json.RawMessage `json:"target_lang"`
}

// openCTC reads a folder of a model that scores letters.
func openCTC(folder string) (*hf.Encoder, modules.Loop, error) {
	loop := modules.Loop{From: modules.LoopAudio, Tokenizer: tokenizerFile, Window: 30}
	words, err := fsx.ReadFile(filepath.Join(folder, "vocab.json"), maxSettings)
	if err != nil {
		return nil, loop, err
	}
	config, err := fsx.ReadFile(filepath.Join(folder, "tokenizer_config.json"), maxSettings)
	if err != nil {
		return nil, loop, err
	}
	vocab, blank, err := readLetters(words, config)
	if err != nil {
		return nil, loop, err
	}
	loop.Blank = &blank
	h, err := hf.OpenWeights(folder, vocab)
	return h, loop, err
}

// readLetters reads the ids of vocab.json, and the id of no text.
func readLetters(words, config []byte) (*tokenizer.Tokenizer, int64, error) {
	var ids map[string]int
	if err := json.Unmarshal(words, &ids); err != nil {
		return nil, 0, fmt.Errorf("vocab.json: %w", err)
	}
	var c letters
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, 0, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	if lang := string(c.Language); lang != "" && lang != "null" {
		return nil, 0, errors.New("unsupported tokenizer_config.json: target_lang, a vocabulary for each language")
	}
	pad := struct{ Content string }{"<pad>"}
	if len(c.Pad) > 0 && json.Unmarshal(c.Pad, &pad.Content) != nil {
		if err := json.Unmarshal(c.Pad, &pad); err != nil {
			return nil, 0, fmt.Errorf("tokenizer_config.json: pad_token: %w", err)
		}
	}
	blank, ok := ids[pad.Content]
	if !ok {
		return nil, 0, fmt.Errorf("vocab.json: missing pad_token %.64q", pad.Content)
	}
	delimiter := "|"
	if c.Delimiter != nil {
		delimiter = *c.Delimiter
	}
	type piece = [2]any
	list := make([]piece, len(ids))
	var added []map[string]any
	for text, id := range ids {
		if id < 0 || id >= len(list) || list[id][0] != nil {
			return nil, 0, fmt.Errorf("vocab.json: id %d of %.64q, want 0 to %d, each once", id, text, len(list)-1)
		}
		if text == delimiter {
			text = "\u2581"
		} else if id == blank || len(text) > 2 && strings.HasPrefix(text, "<") && strings.HasSuffix(text, ">") {
			added = append(added, map[string]any{"id": id, "content": text, "special": true})
		}
		list[id] = piece{text, -float64(id)}
	}
	space := map[string]any{"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never"}
	file, err := json.Marshal(map[string]any{
		"added_tokens": added, "pre_tokenizer": space, "decoder": space,
		"model": map[string]any{"type": "Unigram", "unk_id": blank, "byte_fallback": false, "vocab": list},
	})
	if err != nil {
		return nil, 0, err
	}
	vocab, err := tokenizer.FromTransformers(tokenizer.Transformers{Tokenizer: file, Config: []byte(`{"tokenizer_class": "PreTrainedTokenizerFast"}`)})
	return vocab, int64(blank), err
}

// isCTC reports whether a model_type scores letters.
func isCTC(family string) bool { return slices.Contains(tower.CTCFamilies(), family) }
