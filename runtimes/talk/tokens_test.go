package talk_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/hf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes/talk"
)

// tokenCases are the cases of a folder (scripts/tokens.py).
type tokenCases struct {
	Kind  string
	Cases []struct {
		Text     string
		Add      bool
		Messages []struct{ Role, Content string }
		Date     string
		IDs      []int32
		Second   *string // joined with Text
		Limit    int
		Types    []int32
	}
}

// tokenRow is a row of the table, for the folders of a kind.
type tokenRow struct{ folders, refused, cases, folder, file int }

// TestTokens compares the token ids of texts and of conversations with those of
// AutoTokenizer and apply_chat_template, for the folder and for the GGUF file
// that it is converted to. MM_TOKENS is the folder of make tokens.
func TestTokens(t *testing.T) {
	dir := os.Getenv("MM_TOKENS")
	if dir == "" {
		t.Skip("skipped: MM_TOKENS names no folder of tokenizers (make tokens makes one)")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d tokenizers, %v", dir, len(files), err)
	}
	rows, reasons := map[string]*tokenRow{}, map[string]int{}
	for _, file := range files {
		compareTokens(t, strings.TrimSuffix(file, ".json"), file, rows, reasons)
	}
	fmt.Println("| tokenizers | number | refused | cases | differences, folder | differences, GGUF |\n|---|---|---|---|---|---|")
	total := &tokenRow{}
	for _, kind := range sortedKeys(rows) {
		r := rows[kind]
		fmt.Printf("| %s | %d | %d | %d | %d | %d |\n", kind, r.folders, r.refused, r.cases, r.folder, r.file)
		total.folders, total.refused, total.cases = total.folders+r.folders, total.refused+r.refused, total.cases+r.cases
		total.folder, total.file = total.folder+r.folder, total.file+r.file
	}
	fmt.Printf("| all | %d | %d | %d | %d | %d |\n\n| refused because | number |\n|---|---|\n", total.folders, total.refused, total.cases, total.folder, total.file)
	for _, reason := range sortedKeys(reasons) {
		fmt.Printf("| %s | %d |\n", reason, reasons[reason])
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// compareTokens compares the cases of a folder.
func compareTokens(t *testing.T, folder, file string, rows map[string]*tokenRow, reasons map[string]int) {
	var cases tokenCases
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(folder)
	kind, _, _ := strings.Cut(name, "-")
	if rows[kind] == nil {
		rows[kind] = &tokenRow{}
	}
	row := rows[kind]
	row.folders++
	path := filepath.Join(t.TempDir(), "model.gguf")
	m, err := hf.Convert(t.Context(), folder, path, hf.Options{})
	if err != nil {
		row.refused++
		lines := strings.Split(err.Error(), "tokenizer: ")
		reasons[lines[len(lines)-1]]++
		if cases.Kind != "either" {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	back, err := tokenizer.FromGGUF(f)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	row.cases += len(cases.Cases)
	for from, tok := range map[string]*tokenizer.Tokenizer{"folder": m.Tokenizer, "file": back} {
		wrong := 0
		for _, c := range cases.Cases {
			what, ids := c.Text, []int32(nil)
			if c.Second != nil {
				joined, err := tok.Join(c.Text, *c.Second, true, c.Limit)
				if what = c.Text + " | " + *c.Second; err != nil || !slices.Equal(joined.Segments, c.Types) {
					t.Errorf("%s, %s: %q: segments %v (%v), want %v", name, from, what, joined.Segments, err, c.Types)
				}
				ids = joined.IDs
			} else if c.Messages == nil {
				ids = tok.Encode(c.Text, tokenizer.Options{Special: true, Add: c.Add})
			} else if what, ids, err = templated(tok, c.Messages, c.Date); err != nil {
				t.Errorf("%s, %s: %v", name, from, err)
				continue
			}
			if !slices.Equal(ids, c.IDs) {
				if wrong++; wrong <= 3 {
					t.Errorf("%s, %s: %q (add %v): got %v, want %v", name, from, what, c.Add, ids, c.IDs)
				}
			}
		}
		if from == "folder" {
			row.folder += wrong
		} else {
			row.file += wrong
		}
	}
}

// templated returns the tokens of a conversation on a day.
func templated(tok *tokenizer.Tokenizer, messages []struct{ Role, Content string }, date string) (string, []int32, error) {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return "", nil, err
	}
	tk, err := talk.New(tok, talk.Options{Template: tok.Rules().Template, Now: func() time.Time { return day }})
	if err != nil {
		return "", nil, err
	}
	var turns []talk.Message
	for _, m := range messages {
		turns = append(turns, talk.Text(talk.Role(m.Role), m.Content))
	}
	p, err := tk.Render(turns, nil)
	if err != nil {
		return "", nil, err
	}
	var ids []int32
	for _, piece := range p.Pieces {
		ids = append(ids, piece.Tokens...)
	}
	return fmt.Sprint(messages), ids, nil
}
