package speech_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes/speech"
)

// maxSymbols, maxSymbol, maxSymbolIDs on either side.
func TestSymbolLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: texts at the limits")
	}
	many := func(n int) string {
		m := map[string]int{}
		for i := range n {
			m[fmt.Sprint(i)] = i
		}
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	ids := func(n int) string { return `{"a": [` + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]}" }
	name := func(n int) string { return `{"` + strings.Repeat("a", n) + `": 1}` }
	for text, ok := range map[string]bool{
		many(speech.SymbolsLimit): true, many(speech.SymbolsLimit + 1): false,
		ids(speech.SymbolIDsLimit): true, ids(speech.SymbolIDsLimit + 1): false, ids(0): false,
		name(speech.SymbolLimit): true, name(speech.SymbolLimit + 1): false, name(0): false,
		`{"a": 2147483647}`: true, `{"a": 2147483648}`: false, `{"a": 1.5}`: false, `{"a": null}`: true,
	} {
		if _, _, err := speech.ParseSymbols([]byte(text), ""); (err == nil) != ok {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

// maxSymbolsFile and maxVoicesFile on either side.
func TestFileLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: files at the limits")
	}
	dir := files(t)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fill := `{"a": 1, " ": 2` + strings.Repeat(" ", speech.SymbolsFileLimit-16) + "}"
	write("symbols.json", fill)
	if _, err := open(t, dir, nil); err != nil {
		t.Errorf("%d bytes of symbols: %v", len(fill), err)
	}
	write("symbols.json", fill+" ")
	if _, err := open(t, dir, nil); code(err) != diag.BadSymbols {
		t.Errorf("%d bytes of symbols: %v", len(fill)+1, err)
	}
	big := filepath.Join(dir, "big.bin")
	for size, ok := range map[int64]bool{speech.VoicesFileLimit: true, speech.VoicesFileLimit + 4: false} {
		if err := os.WriteFile(big, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(big, size); err != nil {
			t.Fatal(err)
		}
		if _, err := speech.ReadVoices(big, "big.bin", 1); (err == nil) != ok {
			t.Errorf("%d bytes of voices: %v", size, err)
		}
	}
}

// maxSeconds on either side: 3600 seconds at 1000 Hz, of sentences of five samples
// and pauses of two, and a speed that does not change their number.
func TestSeconds(t *testing.T) {
	s, err := open(t, files(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	one := func(p speech.Piece) error { total += len(p.Samples); return nil }
	if err := s.Synthesize(t.Context(), speech.Request{Text: strings.Repeat("abcab. ", 40), Phonemes: true}, one); err != nil || total != 40*8+39*2 {
		t.Errorf("%d samples, %v", total, err)
	}
	if speech.SecondsLimit != 3600 {
		t.Errorf("got %d seconds", speech.SecondsLimit)
	}
}

func FuzzSymbols(f *testing.F) {
	f.Add([]byte(`{"vocab": {"a": 1}}`), "ab")
	f.Add([]byte(`{"phoneme_id_map": {"ä": [1, 2]}}`), "äa\u0308")
	f.Add([]byte(`{"model": {"vocab": {"tʃ": 1}}}`), "tʃt")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		list, _, err := speech.ParseSymbols(data, text)
		if err != nil {
			return
		}
		for _, p := range speech.Pieces(list, 3) {
			if len(p) == 0 || len(p) > 3 {
				t.Fatalf("a piece of %d symbols", len(p))
			}
		}
		for _, s := range speech.Sentences(text) {
			speech.Spans(s)
		}
	})
}

func FuzzVoices(f *testing.F) {
	f.Add([]byte("\x93NUMPY\x01\x00"), 2)
	f.Add(floats(1, 2), 2)
	f.Add([]byte("PK\x03\x04"), 2)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		if size < 1 || size > 1<<20 {
			return
		}
		file := filepath.Join(t.TempDir(), "v")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = speech.ReadVoices(file, "v.bin", size) // must not panic
	})
}
