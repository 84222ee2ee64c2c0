package net

import "fmt"

func inferMean(b *builder, s *Step) error {
	rows := s.Takes[0].Rows
	if s.Every == 0 {
		s.Every = 1
	}
	if s.Factor == 0 && s.Every > 0 {
		s.Factor = rows / s.Every
	}
	if s.Factor < 1 || s.Every < 1 || s.Every > rows || s.Factor > rows || rows%(s.Factor*s.Every) != 0 {
		return fmt.Errorf("%d rows are not a multiple of factor %d times every %d", rows, s.Factor, s.Every)
	}
	s.gives(rows/s.Factor, s.Takes[0].Cols)
	return nil
}

func inferAdd(b *builder, s *Step) error {
	first := s.Takes[0]
	s.gives(first.Rows, first.Cols)
	for _, p := range s.Takes[1:] {
		if p.Rows != first.Rows || p.Cols != first.Cols {
			return fmt.Errorf("shape mismatch: %s [%d, %d], %s [%d, %d]", first.Name, first.Rows, first.Cols, p.Name, p.Rows, p.Cols)
		}
	}
	return nil
}

// axis sets and checks the axis of a layer.
func (s *Step) axis() error {
	if s.Axis == "" {
		s.Axis = "cols"
	}
	if s.Axis != "rows" && s.Axis != "cols" {
		return fmt.Errorf("axis %q is not rows or cols", s.Axis)
	}
	return nil
}

func inferConcat(b *builder, s *Step) error {
	if err := s.axis(); err != nil {
		return err
	}
	first, rows, cols := s.Takes[0], 0, 0
	for _, p := range s.Takes {
		if s.Axis == "rows" && p.Cols != first.Cols || s.Axis == "cols" && p.Rows != first.Rows {
			return fmt.Errorf("cannot concatenate %s [%d, %d] and %s [%d, %d] along %s", first.Name, first.Rows, first.Cols, p.Name, p.Rows, p.Cols, s.Axis)
		}
		rows, cols = rows+p.Rows, cols+p.Cols
	}
	if s.Axis == "rows" {
		s.gives(rows, first.Cols)
	} else {
		s.gives(first.Rows, cols)
	}
	return nil
}

func inferSlice(b *builder, s *Step) error {
	if err := s.axis(); err != nil {
		return err
	}
	in := s.Takes[0]
	n := in.Cols
	if s.Axis == "rows" {
		n = in.Rows
	}
	if s.To == 0 {
		s.To = n
	}
	if s.From < 0 || s.To > n || s.From >= s.To {
		return fmt.Errorf("from %d to %d is outside the %d %s", s.From, s.To, n, s.Axis)
	}
	if s.Axis == "rows" {
		s.gives(s.To-s.From, in.Cols)
	} else {
		s.gives(in.Rows, s.To-s.From)
	}
	return nil
}

func inferReshape(b *builder, s *Step) error {
	n := s.Takes[0].Rows * s.Takes[0].Cols
	if s.Rows == 0 && s.Cols > 0 {
		s.Rows = n / s.Cols
	}
	if s.Cols == 0 && s.Rows > 0 {
		s.Cols = n / s.Rows
	}
	if s.Rows < 1 || s.Cols < 1 || s.Rows > n || s.Cols > n || s.Rows*s.Cols != n {
		return fmt.Errorf("cannot reshape to [%d, %d] from [%d, %d]", s.Rows, s.Cols, s.Takes[0].Rows, s.Takes[0].Cols)
	}
	s.gives(s.Rows, s.Cols)
	if s.Height < 0 || s.Height > 0 && s.Rows%s.Height != 0 {
		return fmt.Errorf("%d rows are not a multiple of height %d", s.Rows, s.Height)
	}
	if s.Height > 0 {
		s.Gives.Height = s.Height
	}
	return nil
}
