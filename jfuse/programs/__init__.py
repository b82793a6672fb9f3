"""Operations on whole programs: cost, cut, merge, replace constants."""
