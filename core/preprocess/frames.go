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

// The limits of a video: bytes of a GIF, bytes of one picture of a folder, and
// frames.
const (
	maxAnimation = 256 << 20
	maxPicture   = 64 << 20
	maxFrames    = codec.MaxFrames
)

// headBytes are looked at to tell what a file is.
const headBytes = 64 << 10

// Frames are the pictures of a video in their order, decoded one by one as they
// are asked for. It is for one goroutine, and to be closed.
type Frames struct {
	W, H int // of every frame, pixels
	// Times is when each frame begins, and Duration when the last one ends;
	// empty where nothing says so, as in a folder of pictures.
	Times    []time.Duration
	Duration time.Duration

	n     int
	at    func(ctx context.Context, i int) (*Raster, error)
	close func() error
}

// ErrNoVideo says that a file is of none of the formats of videos.
var ErrNoVideo = errors.New("no video: a GIF, a Y4M file and a folder of pictures are read")

// IsVideo reports whether data begins as a video does. A GIF is one, and a
// picture as well.
func IsVideo(data []byte) bool { return matches(data, codec.Y4MMagic) || matches(data, "GIF8?a") }

// OpenFrames opens a video: a Y4M file, a GIF, or a folder whose pictures are
// the frames, sorted by name with the numbers in them as numbers. Nothing but
// headers is read yet.
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

// DecodeFrames reads a video of a Y4M file or of a GIF. The frames share data.
func DecodeFrames(data []byte) (*Frames, error) {
	switch {
	case matches(data, codec.Y4MMagic):
		return openY4M(bytes.NewReader(data), int64(len(data)))
	case matches(data, "GIF8?a"):
		return openGIF(data)
	}
	return nil, noVideo(data)
}

// noVideo says why what begins as head does is no video.
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

// openFolder makes a video of a folder. The pictures are of one size: that of the
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
		return nil, fmt.Errorf("%s holds no picture", path)
	case len(names) > maxFrames:
		return nil, fmt.Errorf("%s holds %d pictures, the limit is %d", path, len(names), maxFrames)
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
			return nil, fmt.Errorf("%s is %d × %d, the first picture %d × %d", names[i], r.W, r.H, f.W, f.H)
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

// byNumber compares names, and numbers in them by their value: 9.png comes
// before 10.png.
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

// Len is the number of frames, at least 1.
func (f *Frames) Len() int { return f.n }

// At is frame i, a picture of its own. Frames of a GIF are drawn on top of the
// ones before: going back costs all of them. When ctx ends, so does the decoding.
func (f *Frames) At(ctx context.Context, i int) (*Raster, error) {
	if i < 0 || i >= f.n {
		return nil, fmt.Errorf("frame %d of %d", i, f.n)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return f.at(ctx, i)
}

// Chosen are the n frames that stand for the video: those that are shown in the
// middle of n equal parts of its time or, where nothing says the times, of its
// frames. Of fewer frames than n some come more than once.
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

// Pick are the n frames of [Frames.Chosen]. Together they have at most MaxPixels.
func (f *Frames) Pick(ctx context.Context, n int) ([]*Raster, error) {
	if n < 1 || n > maxFrames || int64(n)*int64(f.W)*int64(f.H) > MaxPixels {
		return nil, fmt.Errorf("%d frames of %d × %d, the limit is %d pixels together", n, f.W, f.H, MaxPixels)
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

// FromFrames prepares the spec's Frames frames of a video, one where it says
// none: a tensor each.
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
