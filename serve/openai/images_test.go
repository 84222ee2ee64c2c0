package openai

import "testing"

// The number of images is bounded on either side.
func TestImageCount(t *testing.T) {
	for n, ok := range map[int]bool{0: false, 1: true, maxImages: true, maxImages + 1: false} {
		q := imageRequest{Prompt: "a circle", N: &n}
		if err := q.check(); (err == nil) != ok {
			t.Errorf("%d images: got %v, want them allowed: %v", n, err, ok)
		}
	}
}
