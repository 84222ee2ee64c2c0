package hf

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/safetensors"
)

const embedName, headName = "model.embed_tokens.weight", "lm_head.weight"

// weigh writes llama's tensors to a file of dir; each element of a tensor has
// the value that of returns for its name.
func weigh(t *testing.T, dir, file string, names []string, of func(name string) float32) {
	t.Helper()
	var sources []safetensors.Source
	for _, name := range names {
		shape, n := tensors()[name], 1
		for _, d := range shape {
			n *= d
		}
		b := bytes.Repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(of(name))), n)
		sources = append(sources, safetensors.Source{Name: name, DType: safetensors.F32, Shape: shape, Data: safetensors.Bytes(b)})
	}
	var b bytes.Buffer
	if _, err := safetensors.Write(&b, nil, sources); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTied: tie_word_embeddings has the effect that it has in transformers
// 5.23. Two different matrices are not tied, and either one suffices.
func TestTied(t *testing.T) {
	for _, c := range []struct {
		name              string
		embed, head       float32 // 0: missing
		tied              bool
		input, output     float32 // of the file; output 0: the input
		wantErr, wantNote string
	}{
		{"equal", 3, 3, true, 3, 0, "", ""},
		{"different", 3, 4, true, 3, 4, "", "lm_head.weight differs from model.embed_tokens.weight: both are used"},
		{"embedding only", 3, 0, true, 3, 0, "", ""},
		{"head only", 0, 4, true, 4, 0, "", "model.embed_tokens.weight is missing: lm_head.weight is used"},
		{"neither", 0, 0, true, 0, 0, "missing tensor model.embed_tokens.weight", ""},
		{"untied", 3, 3, false, 3, 3, "", ""},
		{"untied, no head", 3, 0, false, 0, 0, "tensor lm_head.weight is missing", ""},
		{"untied, no embedding", 0, 4, false, 0, 0, "missing tensor model.embed_tokens.weight", ""},
	} {
		for _, indexed := range []bool{false, true} { // an index lists both matrices always
			dir, config := t.TempDir(), llama()
			config["tie_word_embeddings"] = c.tied
			put(t, dir, "config.json", config)
			values := map[string]float32{embedName: c.embed, headName: c.head}
			names, where, file := []string{}, map[string]string{}, singleFile
			if indexed {
				file = "model-00001-of-00001.safetensors"
			}
			for name := range tensors() {
				where[name] = file
				if v, ok := values[name]; !ok || v != 0 {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			weigh(t, dir, file, names, func(name string) float32 { return values[name] })
			if indexed {
				put(t, dir, indexFile, map[string]any{"weight_map": where})
			}
			m, err := Open(dir, Options{})
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) && !strings.Contains(err.Error(), "lists for it") {
					t.Errorf("%s, indexed %v: %v, want %q", c.name, indexed, err, c.wantErr)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, indexed %v: %v", c.name, indexed, err)
				continue
			}
			if notes := fmt.Sprint(m.Notes); strings.Contains(notes, c.wantNote) != true || c.wantNote == "" && len(m.Notes) > 0 {
				t.Errorf("%s: got notes %q, want %q", c.name, m.Notes, c.wantNote)
			}
			m.Close()
			f := convert(t, dir)
			of := func(name string) float32 {
				x, ok := f.Tensor(name)
				if !ok {
					return 0
				}
				return math.Float32frombits(binary.LittleEndian.Uint32(x.Data))
			}
			if in, out := of(arch.TokenEmbedding), of(arch.Output); in != c.input || out != c.output {
				t.Errorf("%s, indexed %v: got input %v and output %v, want %v and %v", c.name, indexed, in, out, c.input, c.output)
			}
		}
	}
}

// TestWeightFiles: the files of a folder are those that transformers reads, and
// a missing one is named.
func TestWeightFiles(t *testing.T) {
	names := slices.Sorted(maps.Keys(tensors()))
	one := func(string) float32 { return 1 }
	two := func(string) float32 { return 2 }
	const a, b = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
	index := func(t *testing.T, dir string, of func(i int) string) {
		where := map[string]string{}
		for i, n := range names {
			where[n] = of(i)
		}
		put(t, dir, indexFile, map[string]any{"weight_map": where})
	}
	half := func(i int) string { return []string{a, b}[i%2] }
	halves := func(k int) (out []string) {
		for i, n := range names {
			if i%2 == k {
				out = append(out, n)
			}
		}
		return out
	}
	for _, c := range []struct {
		name      string
		make      func(t *testing.T, dir string)
		err, note string
	}{
		{"stale index beside a complete file", func(t *testing.T, dir string) {
			weigh(t, dir, singleFile, names, one)
			index(t, dir, half)
		}, "", indexFile + " is not used"},
		{"shards", func(t *testing.T, dir string) {
			weigh(t, dir, a, halves(0), one)
			weigh(t, dir, b, halves(1), one)
			index(t, dir, half)
		}, "", ""},
		{"missing shard", func(t *testing.T, dir string) {
			weigh(t, dir, a, halves(0), one)
			index(t, dir, half)
		}, "missing weight file " + b, ""},
		{"link to nothing", func(t *testing.T, dir string) {
			weigh(t, dir, a, halves(0), one)
			if err := os.Symlink("../blobs/77", filepath.Join(dir, b)); err != nil {
				t.Skip(err)
			}
			index(t, dir, half)
		}, "missing weight file " + b + ": link to ../blobs/77, which does not exist", ""},
		{"complete file linked to nothing", func(t *testing.T, dir string) {
			if err := os.Symlink("../blobs/77", filepath.Join(dir, singleFile)); err != nil {
				t.Skip(err)
			}
		}, "missing weight file " + singleFile + ": link to ../blobs/77", ""},
		{"pointer of Git LFS", func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, singleFile), []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "Git LFS pointer", ""},
		{"nothing", func(*testing.T, string) {}, "missing both", ""},
		{"tensor in another file than listed", func(t *testing.T, dir string) {
			weigh(t, dir, a, names, one)
			weigh(t, dir, b, nil, one)
			index(t, dir, half)
		}, "", ""},
		{"tensor in no file", func(t *testing.T, dir string) {
			weigh(t, dir, a, names[:len(names)-1], one)
			index(t, dir, func(int) string { return a })
		}, "missing tensor " + names[len(names)-1] + " in " + a, ""},
		{"equal duplicates", func(t *testing.T, dir string) {
			weigh(t, dir, a, names, one)
			weigh(t, dir, b, names[:3], one)
			index(t, dir, half)
		}, "", ""},
		{"different duplicates", func(t *testing.T, dir string) {
			weigh(t, dir, a, names, one)
			weigh(t, dir, b, names[:3], two)
			index(t, dir, half)
		}, "duplicate tensor " + names[0] + " with different values in " + a + " and " + b, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "config.json", llama())
			c.make(t, dir)
			m, err := Open(dir, Options{})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if notes := fmt.Sprint(m.Notes); !strings.Contains(notes, c.note) || c.note == "" && len(m.Notes) > 0 {
				t.Errorf("got notes %q, want %q", m.Notes, c.note)
			}
		})
	}
}

// TestNotFinite: a tensor with NaN or infinity is refused by name.
func TestNotFinite(t *testing.T) {
	names := slices.Sorted(maps.Keys(tensors()))
	for _, name := range []string{embedName, "model.norm.weight", "model.layers.1.mlp.down_proj.weight"} {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			dir := t.TempDir()
			put(t, dir, "config.json", llama())
			weigh(t, dir, singleFile, names, func(n string) float32 {
				if n == name {
					return float32(bad)
				}
				return 1
			})
			_, err := Convert(t.Context(), dir, filepath.Join(dir, "x.gguf"), Options{})
			if want := fmt.Sprintf("tensor %s: element 0 is %v", name, bad); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	}
}

// TestHarmlessKeys: keys that cannot change the numbers are ignored, the less
// usual ones with a note; numbers may be strings.
func TestHarmlessKeys(t *testing.T) {
	for _, c := range []struct {
		key   string
		value any
		noted bool
	}{
		{"_num_labels", 3, true}, {"_comment", "trained by us", true}, {"tokenizer_class", "LlamaTokenizer", false},
		{"max_sequence_length", 4096, true}, {"model_max_length", 4096, true}, {"neftune_noise_alpha", 5.0, true},
		{"layer_types", []string{"full_attention", "full_attention"}, false}, {"rms_norm_eps", "1e-06", false}, {"rope_theta", "1e6", false},
		{"rope_scaling", map[string]any{"type": "linear", "factor": 2.0, "finetuned": true}, true},
		{"rope_parameters", map[string]any{"rope_type": "default", "rope_theta": "5e5", "_comment": "x"}, true},
		{"use_cache", true, false}, {"id2label", map[string]any{"0": "x"}, false},
	} {
		config := llama()
		config[c.key] = c.value
		m, err := Open(folder(t, config, tensors(), safetensors.F32), Options{})
		if err != nil {
			t.Errorf("%s: %v", c.key, err)
			continue
		}
		if (len(m.Notes) > 0) != c.noted {
			t.Errorf("%s: got notes %q, want some: %v", c.key, m.Notes, c.noted)
		}
		m.Close()
	}
	for key, value := range map[string]any{
		"rms_norm_eps": "tiny", "rope_theta": "NaN", "layer_norm": "NaN", "layer_types": []string{"full_attention", "linear_attention"},
		"rope_scaling": map[string]any{"type": "linear", "factor": 2.0, "sharpness": 2},
	} {
		config := llama()
		config[key] = value
		if _, err := Open(folder(t, config, tensors(), safetensors.F32), Options{}); err == nil || !strings.Contains(err.Error(), strings.Split(key, "_")[0]) {
			b, _ := json.Marshal(value)
			t.Errorf("%s %s: got %v, want an error", key, b, err)
		}
	}
}

// TestPartsLeftOut: tensors of parts that nothing reads are noted, unless the folder has
// a tower that another reader converts.
func TestPartsLeftOut(t *testing.T) {
	text := llama()
	delete(text, "architectures")
	shapes := map[string][]int{"encoder.layers.0.weight": {4, 4}, "projector.weight": {4}}
	for name, shape := range tensors() {
		if name != headName {
			name = strings.Replace(name, "model.", "language_model.model.", 1)
		} else {
			name = "language_model." + name
		}
		shapes[name] = shape
	}
	for _, tower := range []bool{false, true} {
		config := map[string]any{"architectures": []string{"GraniteSpeechForConditionalGeneration"}, "model_type": "granite_speech", "text_config": text}
		if tower {
			config["vision_config"] = map[string]any{"hidden_size": 4}
		}
		m, err := Open(folder(t, config, shapes, safetensors.F32), Options{})
		if err != nil {
			t.Fatal(err)
		}
		noted := slices.ContainsFunc(m.Notes, func(n string) bool { return strings.HasPrefix(n, "2 tensors of other parts are left out") })
		if noted == tower {
			t.Errorf("with a tower %v: notes %q", tower, m.Notes)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
