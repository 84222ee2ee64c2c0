package preprocess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/core/preprocess/codec"
	"mm-abi.org/mm/internal/fsx"
)

// Limits of a video: bytes of a GIF, bytes of an image in a folder, and frames.
const (
	maxAnimation = 256 << 20
	maxPicture   = 64 << 20
	maxFrames    = codec.MaxFrames
)

// headBytes is the number of bytes read to detect a format.
const headBytes = 64 << 10

// Frames are the images of a video in order, decoded on demand. It is not safe
// for concurrent use, and must be closed.
type Frames struct {
	W, H int // of every frame, pixels
	// Times holds the start of each frame, and Duration the end of the last
	// one; both are empty if unknown, as in a folder of images.
	Times    []time.Duration
	Duration time.Duration

	n     int
	at    func(ctx context.Context, i int) (*Raster, error)
	close func() error
}

// ErrNoVideo reports an unknown video format.
var ErrNoVideo = errors.New("not a video: want a GIF, a Y4M file or a folder of images")

// IsVideo reports whether data begins with the magic of a video format. A GIF
// is both a video and an image.
func IsVideo(data []byte) bool { return matches(data, codec.Y4MMagic) || matches(data, "GIF8?a") }

// OpenFrames opens a video: a Y4M file, a GIF, or a folder of images as frames,
// sorted by name with numbers compared by value. It reads only headers.
func OpenFrames(ctx context.Context, path string) (*Frames, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openFolder(ctx, path)
	}
	head, err := fsx.ReadHead(path, headBytes)
	if err != nil {
		return nil, err
	}
	if matches(head, codec.Y4MMagic) {
		f, err := fsx.OpenRegular(path)
		if err != nil {
			return nil, err
		}
		frames, err := openY4M(f, info.Size())
		if err != nil {
			f.Close()
			return nil, err
		}
		frames.close = f.Close
		return frames, nil
	}
	if !IsVideo(head) {
		return nil, noVideo(head)
	}
	data, err := fsx.ReadFile(path, maxAnimation)
	if err != nil {
		return nil, err
	}
	return DecodeFrames(data)
}

// DecodeFrames reads a Y4M file or a GIF in memory. The frames alias data.
func DecodeFrames(data []byte) (*Frames, error) {
	switch {
	case matches(data, codec.Y4MMagic):
		return openY4M(bytes.NewReader(data), int64(len(data)))
	case matches(data, "GIF8?a"):
		return openGIF(data)
	}
	return nil, noVideo(data)
}

// noVideo returns the reason that a file with that head is not a video.
func noVideo(head []byte) error {
	if animated(head) {
		return ErrAnimated
	}
	return ErrNoVideo
}

func openY4M(src interface {
	ReadAt([]byte, int64) (int, error)
}, size int64) (*Frames, error) {
	r, err := codec.NewY4MReader(src, size)
	if err != nil {
		return nil, err
	}
	f := &Frames{W: r.W, H: r.H, n: r.Len(), Duration: r.Time(r.Len())}
	for i := range f.n {
		f.Times = append(f.Times, r.Time(i))
	}
	f.at = func(_ context.Context, i int) (*Raster, error) {
		pix, err := r.RGB(i)
		return &Raster{W: r.W, H: r.H, C: 3, Pix: pix}, err
	}
	return f, nil
}

// openFolder opens a folder as a video. All images must have the size of the
// first.
func openFolder(ctx context.Context, path string) (*Frames, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		switch strings.ToLower(filepath.Ext(e.Name())) {
		case ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp":
			if !strings.HasPrefix(e.Name(), ".") && e.Type()&fs.ModeDir == 0 {
				names = append(names, e.Name())
			}
		}
	}
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("%s has no images", path)
	case len(names) > maxFrames:
		return nil, fmt.Errorf("%s: too many images: got %d, limit %d", path, len(names), maxFrames)
	}
	slices.SortFunc(names, byNumber)
	f := &Frames{n: len(names)}
	f.at = func(ctx context.Context, i int) (*Raster, error) {
		data, err := fsx.ReadFile(filepath.Join(path, names[i]), maxPicture)
		if err != nil {
			return nil, err
		}
		r, err := decode(ctx, data, func(int, int, int) error { return nil })
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", names[i], err)
		case f.W > 0 && (r.W != f.W || r.H != f.H):
			return nil, fmt.Errorf("%s: size mismatch: got %d × %d, want %d × %d", names[i], r.W, r.H, f.W, f.H)
		}
		return r, nil
	}
	first, err := f.at(ctx, 0)
	if err != nil {
		return nil, err
	}
	f.W, f.H = first.W, first.H
	return f, nil
}

// byNumber compares names, with numbers compared by value: 9.png comes before
// 10.png.
func byNumber(a, b string) int {
	digit := func(s string, i int) bool { return i < len(s) && s[i] >= '0' && s[i] <= '9' }
	number := func(s string, i int) (string, int) {
		from := i
		for digit(s, i) {
			i++
		}
		return strings.TrimLeft(s[from:i], "0"), i
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		if !digit(a, i) || !digit(b, j) {
			if a[i] != b[j] {
				return int(a[i]) - int(b[j])
			}
			i, j = i+1, j+1
			continue
		}
		var x, y string
		x, i = number(a, i)
		y, j = number(b, j)
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		if x != y {
			return strings.Compare(x, y)
		}
	}
	if d := (len(a) - i) - (len(b) - j); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

// Len returns the number of frames, at least 1.
func (f *Frames) Len() int { return f.n }

// At returns a copy of frame i. Frames of a GIF build on the earlier ones:
// going back decodes all of them again. A cancellation of ctx stops the
// decoding.
func (f *Frames) At(ctx context.Context, i int) (*Raster, error) {
	if i < 0 || i >= f.n {
		return nil, fmt.Errorf("frame %d out of range %d", i, f.n)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return f.at(ctx, i)
}

// Chosen returns n frames that represent the video: those shown in the middle
// of n equal parts of its time or, if the times are unknown, of its frames. If
// there are fewer frames than n, some repeat.
func (f *Frames) Chosen(n int) []int {
	out := make([]int, n)
	for k := range out {
		if f.Duration <= 0 {
			out[k] = (2*k + 1) * f.n / (2 * n)
			continue
		}
		middle := time.Duration(float64(f.Duration) * float64(2*k+1) / float64(2*n))
		i, found := slices.BinarySearch(f.Times, middle)
		if !found {
			i--
		}
		out[k] = min(max(i, 0), f.n-1)
	}
	return out
}

// Pick returns the n frames of [Frames.Chosen], of at most MaxPixels together.
func (f *Frames) Pick(ctx context.Context, n int) ([]*Raster, error) {
	if n < 1 || n > maxFrames || int64(n)*int64(f.W)*int64(f.H) > MaxPixels {
		return nil, fmt.Errorf("%d frames of %d × %d exceed the limit of %d pixels", n, f.W, f.H, MaxPixels)
	}
	var out []*Raster
	chosen := f.Chosen(n)
	for k, i := range chosen {
		if k > 0 && chosen[k-1] == i {
			out = append(out, out[k-1])
			continue
		}
		r, err := f.At(ctx, i)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// Close closes the file.
func (f *Frames) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

// FromFrames prepares the spec's Frames frames of a video, by default one, as a
// tensor each.
func (s *Spec) FromFrames(ctx context.Context, f *Frames) ([]*Tensor, error) {
	var out []*Tensor
	for _, i := range f.Chosen(max(s.Frames, 1)) {
		r, err := f.At(ctx, i)
		if err != nil {
			return nil, err
		}
		t, err := s.FromRaster(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("frame %d: %w", i, err)
		}
		out = append(out, t)
	}
	return out, nil
}
