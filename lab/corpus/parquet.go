package corpus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"mm-abi.org/mm/internal/diag"
)

// rowsAtOnce is the number of rows that are decoded at a time.
const rowsAtOnce = 16

// parquetBlocks calls emit for the rows of a Parquet file with the columns that
// the reader names. The whole file is hashed first.
func parquetBlocks(ctx context.Context, f *file, s *Source, i int, r *reader, emit func(block, int64) error) error {
	if err := f.check(s.SHA256); err != nil {
		return err
	}
	p, err := openParquet(f.at, f.size, r.columns)
	if err != nil {
		return parquetFault(err)
	}
	defer p.close()
	b := block{source: i, first: 1}
	size, row := 0, int64(0)
	flush := func() error {
		if len(b.rows) == 0 {
			return nil
		}
		done := b
		b.rows, b.first, size = nil, row+1, 0
		return emit(done, f.size*row/max(p.rows, 1))
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows, err := p.next()
		for _, one := range rows {
			row++
			b.rows = append(b.rows, one)
			each(map[string]any(one), func(s string) bool { size += len(s); return true })
		}
		if err == nil && size < blockSize && len(b.rows) < 1<<14 {
			continue
		}
		if failed := flush(); failed != nil {
			return failed
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return parquetFault(err)
		}
	}
}

func parquetFault(err error) error {
	var f *fault
	if errors.As(err, &f) {
		return err
	}
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > 300 {
		text = text[:300]
	}
	return faultf(diag.ParquetFault, "%s", text)
}

// table reads the rows of a Parquet file.
type table struct {
	r        *parquet.GenericReader[any]
	rows     int64
	unsigned map[string]bool // columns of unsigned integers
	buf      [rowsAtOnce]any
}

// openParquet opens a file and checks the pages of the columns. The library
// panics on some damaged files; panics are errors.
func openParquet(f *os.File, size int64, columns []string) (t *table, err error) {
	defer recovered(&err)
	if err := checkFooter(f, size); err != nil {
		return nil, err
	}
	p, err := parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	group, names := parquet.Group{}, map[string]bool{}
	var all []string
	for _, field := range p.Root().Fields() {
		all = append(all, field.Name())
		if slices.Contains(columns, field.Name()) {
			group[field.Name()] = field
			names[field.Name()] = true
		}
	}
	for _, name := range columns {
		if !names[name] {
			return nil, &fault{code: diag.SourceColumn, detail: fmt.Sprintf("no column %q", name), hint: "the file has " + strings.Join(all, ", ")}
		}
	}
	unsigned, err := integers(group)
	if err != nil {
		return nil, err
	}
	chunks, err := columnsOf(p, f, names)
	if err != nil {
		return nil, err
	}
	for _, c := range chunks {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("column %q: %w", c.name, err)
		}
	}
	r := parquet.NewGenericReader[any](p, parquet.NewSchema(p.Schema().Name(), group))
	return &table{r: r, rows: p.NumRows(), unsigned: unsigned}, nil
}

// integers returns the columns of unsigned integers. Decimals and 16-bit floats
// would be read as their bytes.
func integers(columns parquet.Group) (map[string]bool, error) {
	unsigned := map[string]bool{}
	for name, n := range columns {
		if !n.Leaf() || n.Type().LogicalType() == nil {
			continue
		}
		switch l := n.Type().LogicalType().Value.(type) {
		case *format.IntType:
			unsigned[name] = !l.IsSigned
		case *format.DecimalType, *format.Float16Type:
			return nil, &fault{code: diag.SourceColumn, detail: fmt.Sprintf("column %q has type %s, want text, integers, 32-bit or 64-bit floats", name, n.Type()), hint: "cast it"}
		}
	}
	return unsigned, nil
}

// checkFooter walks the footer before the library allocates its lists.
func checkFooter(f io.ReaderAt, size int64) error {
	var tail [8]byte
	if size < 12 {
		return fmt.Errorf("file of %d bytes, want at least 12", size)
	}
	if _, err := f.ReadAt(tail[:], size-8); err != nil {
		return err
	}
	if string(tail[4:]) != "PAR1" {
		return fmt.Errorf("got %q at the end, want PAR1", tail[4:])
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > maxFooter || n > size-12 {
		return fmt.Errorf("footer of %d bytes, limit %d", n, min(maxFooter, size-12))
	}
	footer := make([]byte, n)
	if _, err := f.ReadAt(footer, size-8-n); err != nil {
		return err
	}
	return (&thrift{b: footer}).structure(1, 0)
}

// recovered turns a panic into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("invalid structure: %v", p)
	}
}

// next returns the next rows, and io.EOF with or after the last.
func (t *table) next() (rows []map[string]any, err error) {
	defer recovered(&err)
	clear(t.buf[:])
	n, err := t.r.Read(t.buf[:])
	if n == 0 && err == nil {
		return nil, io.ErrNoProgress
	}
	for _, v := range t.buf[:n] {
		m, ok := v.(map[string]any)
		if !ok {
			return rows, fmt.Errorf("row is %T", v)
		}
		for k, v := range m {
			m[k] = plain(v)
			if i, ok := m[k].(int); ok && t.unsigned[k] && i < 0 {
				m[k] = natural(v, i)
			}
		}
		rows = append(rows, m)
	}
	return rows, err
}

func (t *table) close() (err error) {
	defer recovered(&err)
	return t.r.Close()
}

// natural returns an unsigned integer that was read as a negative one.
func natural(v any, i int) any {
	if _, ok := v.(int32); ok {
		return int(uint32(i))
	}
	return float64(uint64(i))
}

// plain returns a value as JSON has it: int, float64, bool, text, lists, maps.
func plain(v any) any {
	switch v := v.(type) {
	case int32:
		return int(v)
	case int64:
		return int(v)
	case uint32:
		return int(v)
	case uint64:
		return float64(v)
	case float32:
		return plain(float64(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	case []byte:
		return string(v)
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	}
	return v
}

// checkRow reports invalid UTF-8 in the texts of a row, and texts that are too
// long.
func checkRow(row map[string]any) error {
	total := 0
	if !each(row, func(s string) bool { total += len(s); return utf8.ValidString(s) }) {
		return faultf(diag.RowText, "invalid UTF-8")
	}
	if total > maxRow {
		return faultf(diag.RowLimit, "longer than %d bytes", maxRow)
	}
	return nil
}
