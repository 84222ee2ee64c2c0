package bucket

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"golang.org/x/sync/errgroup"
)

const (
	maxBlocks     = 50_000 // of a blob, by the protocol
	azureParallel = 4      // blocks in flight
)

// Put implements [bucket.Bucket].
func (b *Azure) Put(ctx context.Context, key string, r io.ReaderAt, size int64, opt PutOptions) (Info, error) {
	if err := CheckKey(key); err != nil {
		return Info{}, err
	}
	header := map[string]string{}
	if opt.SHA256 != "" {
		header["X-Ms-Meta-"+DigestKey] = opt.SHA256
	}
	put := azureRequest{method: http.MethodPut, key: key, header: header}
	if opt.IfAbsent {
		header["If-None-Match"] = "*"
		put.unmet = ErrExists
	}
	var err error
	if size <= b.opt.PartSize {
		err = b.single(ctx, put, io.NewSectionReader(r, 0, size))
	} else {
		u := azureUpload{Azure: b, key: key, r: r, size: size, part: max(b.opt.PartSize, (size+maxBlocks-1)/maxBlocks)}
		err = u.run(ctx, put)
	}
	if err != nil {
		return Info{}, err
	}
	return b.Stat(ctx, key)
}

// single writes a blob with one request.
func (b *Azure) single(ctx context.Context, put azureRequest, r *io.SectionReader) error {
	sum, _, err := azureDigests(r)
	if err != nil {
		return err
	}
	put.header["X-Ms-Blob-Type"] = "BlockBlob"
	put.header["Content-Md5"] = sum
	put.length, put.body = r.Size(), func() io.Reader { return io.NewSectionReader(r, 0, r.Size()) }
	_, _, err = b.ask(ctx, put)
	return err
}

// azureUpload is an upload in blocks. The id of a block is a digest of its content, so
// that the blocks that the store holds of an interrupted upload are recognized.
type azureUpload struct {
	*Azure
	key        string
	r          io.ReaderAt
	size, part int64
}

func (u *azureUpload) run(ctx context.Context, put azureRequest) error {
	held, err := u.held(ctx)
	if err != nil {
		return err
	}
	ids := make([]string, (u.size+u.part-1)/u.part)
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(azureParallel)
	for i := range ids {
		group.Go(func() (err error) {
			ids[i], err = u.send(sending, i, held)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	list := struct {
		XMLName xml.Name `xml:"BlockList"`
		Latest  []string
	}{Latest: ids}
	text, err := xml.Marshal(list)
	if err != nil {
		return err
	}
	put.query = url.Values{"comp": {"blocklist"}}
	put.length, put.body = int64(len(text)), func() io.Reader { return bytes.NewReader(text) }
	_, _, err = u.ask(ctx, put)
	return u.outrun(ctx, err, put.unmet)
}

// outrun finds the reason why the store has no such blocks: another writer of the
// blob was first, which discards them.
func (u *azureUpload) outrun(ctx context.Context, err, unmet error) error {
	var e *StatusError
	if unmet == nil || !errors.As(err, &e) || e.Code != "InvalidBlockList" {
		return err
	}
	if _, missing := u.Stat(ctx, u.key); missing == nil {
		return unmet
	}
	return err
}

// held lists the blocks of an earlier upload that did not end.
func (u *azureUpload) held(ctx context.Context) (map[string]int64, error) {
	_, text, err := u.ask(ctx, azureRequest{method: http.MethodGet, key: u.key, query: url.Values{"comp": {"blocklist"}, "blocklisttype": {"uncommitted"}}})
	if errors.Is(err, ErrMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list struct {
		UncommittedBlocks struct {
			Block []struct {
				Name string
				Size int64
			}
		}
	}
	if err := xml.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &list); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	held := map[string]int64{}
	for _, b := range list.UncommittedBlocks.Block {
		held[b.Name] = b.Size
	}
	return held, nil
}

// send sends a block that the store does not hold.
func (u *azureUpload) send(ctx context.Context, i int, held map[string]int64) (string, error) {
	section := io.NewSectionReader(u.r, int64(i)*u.part, min(u.part, u.size-int64(i)*u.part))
	sum, sum256, err := azureDigests(section)
	if err != nil {
		return "", err
	}
	id := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(sum256[:28:28], uint32(i)))
	if held[id] == section.Size() {
		return id, nil
	}
	_, _, err = u.ask(ctx, azureRequest{
		method: http.MethodPut, key: u.key, query: url.Values{"comp": {"block"}, "blockid": {id}}, header: map[string]string{"Content-Md5": sum},
		body: func() io.Reader { return io.NewSectionReader(section, 0, section.Size()) }, length: section.Size(),
	})
	return id, err
}

// azureDigests returns the MD5, in the form of the header, and the SHA-256.
func azureDigests(r *io.SectionReader) (string, []byte, error) {
	m, s := md5.New(), sha256.New()
	n, err := io.Copy(io.MultiWriter(m, s), r)
	if err == nil && n != r.Size() {
		err = fmt.Errorf("got %d bytes, want %d: %w", n, r.Size(), io.ErrUnexpectedEOF)
	}
	return base64.StdEncoding.EncodeToString(m.Sum(nil)), s.Sum(nil), err
}
