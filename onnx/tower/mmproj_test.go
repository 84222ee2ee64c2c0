package tower

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
)

// mmproj is what llama.cpp's converter wrote of a tiny SmolVLM.
func mmproj(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/smolvlm-mmproj.gguf")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// changed returns the file with other keys.
func changed(t *testing.T, keys map[string]any, without ...string) *gguf.File {
	t.Helper()
	f, err := gguf.Parse(mmproj(t))
	if err != nil {
		t.Fatal(err)
	}
	var kvs []gguf.KV
	for _, kv := range f.KVs {
		if v, ok := keys[kv.Key]; ok {
			kv.Value = v
			delete(keys, kv.Key)
		}
		kvs = append(kvs, kv)
	}
	for key, v := range keys {
		kvs = append(kvs, gguf.KV{Key: key, Value: v})
	}
	var tensors []gguf.Source
	for _, x := range f.Tensors {
		if !slices.Contains(without, x.Name) {
			tensors = append(tensors, gguf.Source{Name: x.Name, Type: x.Type, Dims: x.Dims, Data: gguf.Bytes(x.Data)})
		}
	}
	var b bytes.Buffer
	if _, err := gguf.Write(&b, kvs, tensors); err != nil {
		t.Fatal(err)
	}
	if f, err = gguf.Parse(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestMMProjRefuses: keys and tensors that are missing or unknown are named.
func TestMMProjRefuses(t *testing.T) {
	for _, c := range []struct {
		keys    map[string]any
		without string
		want    string
	}{
		{map[string]any{"general.architecture": "llama"}, "", "not an mmproj file"},
		{map[string]any{"clip.has_audio_encoder": true}, "", "pictures and of sounds"},
		{map[string]any{"clip.projector_type": "resampler"}, "", `unsupported clip.projector_type "resampler"`},
		{map[string]any{"clip.vision.embedding_length": uint32(1 << 20)}, "", "hidden_size"},
		{map[string]any{"clip.vision.block_count": uint32(513)}, "", "layers"},
		{map[string]any{"clip.vision.patch_size": uint32(0)}, "", "patch_size"},
		{map[string]any{"clip.vision.image_size": uint32(33)}, "", "multiple of patch_size"},
		{map[string]any{"clip.vision.projector.scale_factor": uint32(3)}, "", "multiple of 3"},
		{nil, "mm.model.fc.weight", "missing tensor mm.model.fc.weight"},
	} {
		if _, err := ReadMMProj(changed(t, c.keys, c.without)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v without %q: %v, want %q", c.keys, c.without, err, c.want)
		}
	}
}

// TestMMProjMissing: a tensor that is missing is named, whatever sizes the file
// states, and takes no memory.
func TestMMProjMissing(t *testing.T) {
	p, err := ReadMMProj(changed(t, map[string]any{"clip.vision.feed_forward_length": uint32(maxHidden), "clip.vision.block_count": uint32(maxLayers)}))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ReadConfig(p.Config)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = c.Encoder(p.Weights)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "mlp.fc1.weight") {
		t.Errorf("%v, want the name of a tensor", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20 {
		t.Errorf("%d MiB allocated", n>>20)
	}
}

// TestZeros has the numbers for missing tensors at their limit and one beyond it.
func TestZeros(t *testing.T) {
	for more, want := range []bool{false, true} {
		stopped := false
		func() {
			w := &writer{t: Weights{}}
			defer func() { stopped = recover() != nil }()
			w.read("x", maxZeros+more)
		}()
		if stopped != want {
			t.Errorf("%d zeros: stopped %v, want %v", maxZeros+more, stopped, want)
		}
	}
}

// FuzzReadMMProj: no file ends the program or takes memory beyond its size.
func FuzzReadMMProj(f *testing.F) {
	f.Add(mmproj(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := gguf.Parse(bytes.Clone(data))
		if err != nil || g.Check() != nil {
			return
		}
		p, err := ReadMMProj(g)
		if err != nil {
			return
		}
		c, err := ReadConfig(p.Config)
		if err != nil {
			t.Fatal(fmt.Errorf("a configuration of our own: %w", err))
		}
		c.Preprocess(p.Processor)
		c.Encoder(p.Weights)
		c.Projector(p.Weights)
	})
}
