package tower

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/safetensors"
)

// TestJoint compares the vectors of pictures of CLIP and SigLIP with transformers.
func TestJoint(t *testing.T) {
	for _, name := range []string{"clip", "siglip"} {
		dir := filepath.Join("..", "sentence", "testdata", "joint", name)
		read := func(file string) []byte {
			data, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		c, err := ReadJoint(read("config.json"))
		if err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.Open(filepath.Join(dir, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		all := map[string]safetensors.Tensor{}
		for _, x := range f.Tensors {
			all[x.Name] = x
		}
		m, err := c.Joint(Safetensors(all))
		if err != nil {
			t.Fatal(err)
		}
		spec, err := c.Preprocess(read("preprocessor_config.json"))
		if err != nil {
			t.Fatal(err)
		}
		var want struct{ Images [][]float32 }
		if err := json.Unmarshal(read("want.json"), &want); err != nil {
			t.Fatal(err)
		}
		for i, file := range []string{"33x35.png", "32x32.png"} {
			data, err := os.ReadFile(filepath.Join(dir, "..", file))
			if err != nil {
				t.Fatal(err)
			}
			x, err := spec.FromImage(t.Context(), data)
			if err != nil {
				t.Fatal(err)
			}
			pixels := make([]float32, len(x.Data)/4)
			for i := range pixels {
				pixels[i] = math.Float32frombits(binary.LittleEndian.Uint32(x.Data[4*i:]))
			}
			if _, cosine := compare(t, run(t, m, pixels, 1, 3, c.Image, c.Image), want.Images[i]); cosine < 0.999999 {
				t.Errorf("%s, %s: cosine %v", name, file, cosine)
			}
		}
		delete(all, "vision_model.post_layernorm.weight")
		if _, err := c.Joint(Safetensors(all)); err == nil || !strings.Contains(err.Error(), "post_layernorm.weight") {
			t.Errorf("%s without a tensor: %v", name, err)
		}
	}
}

// TestJointRefuses: what changes the result and is not computed is refused by name.
func TestJointRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"model_type": "siglip2"}`: "model_type",
		`{"model_type": "siglip", "vision_config": {"vision_use_head": false}}`: "vision_use_head",
		`{"model_type": "clip", "projection_dim": 0}`:                           "width of the language model",
		`{"model_type": "clip", "vision_config": {"num_channels": 1}}`:          "num_channels",
		`{"model_type": "clip", "vision_config": {"model_type": "dinov2"}}`:     "vision_config.model_type",
		`{"model_type": "clip", "vision_config": {"image_size": 8193}}`:         "image_size",
	} {
		if _, err := ReadJoint([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if c, err := ReadJoint([]byte(`{"model_type": "clip", "vision_config": {"image_size": 30, "patch_size": 7}}`)); err != nil || c.Patches() != 16 {
		t.Errorf("a picture that is not a multiple of patches: %v, %v", c.Patches(), err)
	}
}
