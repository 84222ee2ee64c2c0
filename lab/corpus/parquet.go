package corpus

import (
	"context"

	"mm-abi.org/mm/internal/diag"
)

func parquetBlocks(ctx context.Context, f *file, s *Source, i int, r *reader, emit func(block, int64) error) error {
	return faultf(diag.ParquetFault, "not supported")
}
