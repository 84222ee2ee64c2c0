package gguf

import (
	"bytes"
	"io"
	"testing"
)

// FuzzParse checks the reader on any bytes: it does not panic, Parse and Read
// agree, and an accepted file survives writing and reading.
func FuzzParse(f *testing.F) {
	for _, c := range malformed() {
		f.Add(c.file)
	}
	var b bytes.Buffer
	if _, err := Write(&b, allKVs, sample()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, file []byte) {
		got, err := Parse(file)
		read, readErr := Read(bytes.NewReader(file), int64(len(file)))
		if (err == nil) != (readErr == nil) || err != nil && err.Error() != readErr.Error() {
			t.Fatalf("in memory: %v, over a reader: %v", err, readErr)
		}
		if err != nil {
			return
		}
		got.Check()
		sources := make([]Source, len(got.Tensors))
		for i, g := range got.Tensors {
			sources[i] = Source{g.Name, g.Type, g.Dims, Bytes(g.Data)}
			data, err := io.ReadAll(read.Section(read.Tensors[i]))
			if err != nil || !bytes.Equal(data, g.Data) {
				t.Fatalf("tensor %s: data over a reader differ (%v)", g.Name, err)
			}
		}
		var again bytes.Buffer
		if _, err := Write(&again, got.KVs, sources); err != nil {
			t.Fatalf("writing: %v", err)
		}
		back, err := Parse(again.Bytes())
		if err != nil {
			t.Fatalf("reading back: %v", err)
		}
		if len(back.KVs) != len(got.KVs) || len(back.Tensors) != len(got.Tensors) {
			t.Fatalf("%d keys and %d tensors became %d and %d", len(got.KVs), len(got.Tensors), len(back.KVs), len(back.Tensors))
		}
	})
}
