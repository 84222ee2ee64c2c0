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

// maxRecord is the maximum size of a record in bytes, enough for some thousand tensors.
const maxRecord = 4 << 20

// ErrChanged reports that a record differs from what was sealed.
var ErrChanged = errors.New("record changed after it was sealed")

// Canonical returns the record without digest and signature as JSON with sorted keys and no
// white space.
func (r Record) Canonical() ([]byte, error) {
	r.Digest, r.Signature = "", nil
	plain, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.UseNumber()
	var tree map[string]any // Marshal sorts its keys
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

// Seal sets schema and digest. NaN and infinity are errors.
func (r *Record) Seal() error {
	r.Schema = Schema
	d, err := r.digest()
	if err != nil {
		return fmt.Errorf("sealing evidence: %w", err)
	}
	r.Digest = d
	return nil
}

// Read reads a record and verifies its digest; a mismatch is [ErrChanged]. Unknown keys are
// refused.
func Read(in io.Reader) (Record, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxRecord+1))
	if err != nil {
		return Record{}, err
	}
	if len(data) > maxRecord {
		return Record{}, fmt.Errorf("evidence too long, limit %d bytes", maxRecord)
	}
	var r Record
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return Record{}, fmt.Errorf("reading evidence: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Record{}, errors.New("reading evidence: data after the record")
	}
	if r.Schema != Schema {
		return Record{}, fmt.Errorf("reading evidence: unknown schema %q, want %s", r.Schema, Schema)
	}
	want, err := r.digest()
	if err != nil {
		return Record{}, fmt.Errorf("reading evidence: %w", err)
	}
	if r.Digest != want {
		return Record{}, fmt.Errorf("%w: digest %s, computed %s", ErrChanged, r.Digest, want)
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
