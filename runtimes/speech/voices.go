package speech

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/internal/fsx"
)

// maxVoicesFile bounds a file of voices, packed and unpacked.
const maxVoicesFile = 256 << 20

// voice holds the vectors of one voice: row n-1 is for n symbols.
type voice struct {
	rows []float32
	size int
}

// row returns the vector for n symbols, as float64.
func (v voice) row(n int) []float64 {
	at := min(max(n, 1), len(v.rows)/v.size) - 1
	out := make([]float64, v.size)
	for i, x := range v.rows[at*v.size:][:v.size] {
		out[i] = float64(x)
	}
	return out
}

// readVoices reads a file of voices by its content: an archive of arrays, an array,
// or plain float32 numbers. size is that of a vector.
func readVoices(file, name string, size int) (map[string]voice, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, errors.New(reason(err))
	}
	if info.Size() > maxVoicesFile {
		return nil, fmt.Errorf("got %d bytes, want at most %d", info.Size(), maxVoicesFile)
	}
	stem := strings.TrimSuffix(path.Base(name), path.Ext(name))
	head, err := fsx.ReadHead(file, 8)
	if err != nil {
		return nil, errors.New(reason(err))
	}
	if strings.HasPrefix(string(head), "PK") {
		return readArchive(file, info.Size(), size)
	}
	data, err := fsx.ReadFile(file, maxVoicesFile)
	if err != nil {
		return nil, errors.New(reason(err))
	}
	if !npy.Is(data) {
		v, err := plain(data, size)
		return map[string]voice{stem: v}, err
	}
	a, err := npy.Decode(data)
	if err != nil {
		return nil, err
	}
	v, err := arrayVoice(a, size)
	return map[string]voice{stem: v}, err
}

func readArchive(file string, length int64, size int) (map[string]voice, error) {
	f, err := fsx.OpenRegular(file)
	if err != nil {
		return nil, errors.New(reason(err))
	}
	defer f.Close()
	arrays, err := npy.ReadArchive(f, length, maxVoicesFile)
	if err != nil {
		return nil, err
	}
	out := make(map[string]voice, len(arrays))
	for name, a := range arrays {
		v, err := arrayVoice(a, size)
		if err != nil {
			return nil, fmt.Errorf("voice %.80q: %w", name, err)
		}
		out[name] = v
	}
	return out, nil
}

// arrayVoice checks the type and the shape of an array.
func arrayVoice(a *npy.Array, size int) (voice, error) {
	last := len(a.Shape) - 1
	if a.Type != "f4" || last < 0 || a.Shape[last] != size || last > 2 || last == 2 && a.Shape[1] != 1 {
		return voice{}, fmt.Errorf("got an array of %s %v, want f4 [N, %d] or [N, 1, %d]", a.Type, a.Shape, size, size)
	}
	return plain(a.Data, size)
}

// plain reads little-endian float32 numbers.
func plain(data []byte, size int) (voice, error) {
	if len(data) == 0 || len(data)%(4*size) != 0 {
		return voice{}, fmt.Errorf("got %d bytes, want a multiple of %d, vectors of %d float32 numbers", len(data), 4*size, size)
	}
	v := voice{rows: make([]float32, len(data)/4), size: size}
	for i := range v.rows {
		v.rows[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	if i := slices.IndexFunc(v.rows, func(x float32) bool { return math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) }); i >= 0 {
		return voice{}, fmt.Errorf("number %d is %v, want finite numbers", i, v.rows[i])
	}
	return v, nil
}

// reason returns the message of an error without its path.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}
