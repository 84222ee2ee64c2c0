package bucket

import (
	"context"
	"path"
	"strings"
)

// sweeper removes pieces that no delta names.
type sweeper struct {
	read  map[string][]Piece // of deltas, by key and version
	stale map[string]bool    // keys of pieces that no delta named at the last sweep
}

// sweep removes the pieces below a folder that no delta names and none named at
// the sweep before, so that a reader of the version before can finish.
func (s *sweeper) sweep(ctx context.Context, b Bucket, place Address) error {
	var deltas, pieces []Info
	folder := strings.TrimSuffix(place.Key, "/")
	for info, err := range b.List(ctx, join(folder, "")) {
		switch dir := path.Dir(info.Key); {
		case err != nil:
			return err
		case dir == path.Clean(folder) && strings.HasSuffix(info.Key, DeltaSuffix):
			deltas = append(deltas, info)
		case dir == path.Join(folder, pieceFolder) && strings.HasPrefix(path.Base(info.Key), "sha256-"):
			pieces = append(pieces, info)
		}
	}
	read, named := map[string][]Piece{}, map[string]bool{}
	for _, info := range deltas {
		key, version := strings.TrimSuffix(info.Key, DeltaSuffix), info.Key+" "+info.ETag
		list, cached := s.read[version]
		if !cached || info.ETag == "" {
			d, err := readDelta(ctx, b, key)
			if err != nil {
				return err // it may name any piece
			}
			list = d.Pieces
		}
		read[version] = list
		for _, p := range list {
			named[pieceKey(key, p.SHA256)] = true
		}
	}
	before := s.stale
	s.read, s.stale = read, map[string]bool{}
	for _, info := range pieces {
		switch {
		case named[info.Key]:
		case !before[info.Key]:
			s.stale[info.Key] = true
		default:
			if err := ignoreMissing(b.Delete(ctx, info.Key)); err != nil {
				return err
			}
		}
	}
	return nil
}
