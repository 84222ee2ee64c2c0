package builtin

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/jpeg"
	"strings"
	"testing"

	"mm-abi.org/mm/modules"
)

// TestImageLimits covers MaxPixels on either side by the header alone, and
// maxPasses by the scans of a JPEG.
func TestImageLimits(t *testing.T) {
	decode := func(data []byte) error {
		_, err := DecodeImage(&Call{ctx: context.Background(), limits: modules.Effective{MemBytes: 1 << 30}}, data)
		return err
	}
	for _, c := range []struct {
		w, h  int
		large bool
	}{{MaxPixels, 1, false}, {1, MaxPixels, false}, {MaxPixels + 1, 1, true}, {1, MaxPixels + 1, true}, {2, MaxPixels / 2, false}, {2, MaxPixels/2 + 1, true}} {
		err := decode(header(c.w, c.h))
		if large := err != nil && strings.Contains(err.Error(), "too large"); large != c.large {
			t.Errorf("%d × %d: %v", c.w, c.h, err)
		}
	}
	for n, large := range map[int]bool{maxPasses: false, maxPasses + 1: true} {
		err := decode(scans(t, n))
		if got := err != nil && strings.Contains(err.Error(), "too large"); got != large {
			t.Errorf("%d scans: %v", n, err)
		}
	}
}

// header is a PNG without pixels.
func header(w, h int) []byte {
	b := []byte("IHDR")
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, uint32(w)), uint32(h))
	b = append(b, 8, 2, 0, 0, 0)
	return binary.BigEndian.AppendUint32(append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\r"), b...), crc32.ChecksumIEEE(b))
}

// scans is a JPEG with n copies of its scan.
func scans(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8)), nil); err != nil {
		t.Fatal(err)
	}
	start := bytes.Index(b.Bytes(), []byte{0xff, 0xda})
	scan := b.Bytes()[start : b.Len()-2]
	return append(append(bytes.Clone(b.Bytes()[:start]), bytes.Repeat(scan, n)...), 0xff, 0xd9)
}
