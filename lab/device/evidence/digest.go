package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxRecord bounds a record in bytes: some thousand tensors.
const maxRecord = 4 << 20

// ErrChanged says that a record is not what was sealed.
var ErrChanged = errors.New("the record was changed after it was sealed")

// Canonical is the record without its digest and signature as JSON with sorted keys and no
// white space.
func (r Record) Canonical() ([]byte, error) {
	r.Digest, r.Signature = "", nil
	plain, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.UseNumber()
	var tree map[string]any // whose keys Marshal sorts
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	delete(tree, "digest")
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

func (r Record) digest() (string, error) {
	b, err := r.Canonical()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Seal sets the schema and the digest. It is an error where a number is none
// that JSON has.
func (r *Record) Seal() error {
	r.Schema = Schema
	d, err := r.digest()
	if err != nil {
		return fmt.Errorf("sealing evidence: %w", err)
	}
	r.Digest = d
	return nil
}

// Read reads a record and checks its digest: [ErrChanged] where it is another.
// Keys that are not known are refused.
func Read(in io.Reader) (Record, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxRecord+1))
	if err != nil {
		return Record{}, err
	}
	if len(data) > maxRecord {
		return Record{}, fmt.Errorf("evidence of more than %d bytes", maxRecord)
	}
	var r Record
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return Record{}, fmt.Errorf("reading evidence: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Record{}, errors.New("reading evidence: something follows the record")
	}
	if r.Schema != Schema {
		return Record{}, fmt.Errorf("reading evidence: schema %q, known is %s", r.Schema, Schema)
	}
	want, err := r.digest()
	if err != nil {
		return Record{}, fmt.Errorf("reading evidence: %w", err)
	}
	if r.Digest != want {
		return Record{}, fmt.Errorf("%w: it says %s and has %s", ErrChanged, r.Digest, want)
	}
	return r, nil
}

// isDigest reports whether s is sha256: and 64 lower-case hex digits.
func isDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	if !ok || len(digits) != 2*sha256.Size || strings.ToLower(digits) != digits {
		return false
	}
	_, err := hex.DecodeString(digits)
	return err == nil
}
