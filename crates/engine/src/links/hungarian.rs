//! The assignment of rows to columns with the largest sum.

/// The column of each row, none where the row stays alone; `weight` of a row and a column is at least 0, and a pair
/// with weight 0 says nothing.
///
/// Rows are added one by one, each along a shortest augmenting path over reduced costs: O(rows² · columns).
/// Source: Kuhn, *The Hungarian method for the assignment problem*, 1955, in the form of Jonker and Volgenant, 1987.
pub fn assign(rows: usize, columns: usize, weight: impl Fn(usize, usize) -> f64) -> Vec<Option<usize>> {
    // as many columns as rows at least, so that each row finds one; those beyond weigh nothing
    let width = columns.max(rows);
    let cost = |row: usize, column: usize| if column < columns { -weight(row, column) } else { 0.0 };
    // column 0 stands for the row that is being added
    let (mut of_row, mut of_column) = (vec![0.0; rows + 1], vec![0.0; width + 1]);
    let mut row_of = vec![0; width + 1];
    for added in 1..=rows {
        row_of[0] = added;
        let mut column = 0;
        let mut least = vec![f64::INFINITY; width + 1];
        let mut before = vec![0; width + 1];
        let mut visited = vec![false; width + 1];
        loop {
            visited[column] = true;
            let row = row_of[column];
            let (mut step, mut next) = (f64::INFINITY, 0);
            for other in 1..=width {
                if visited[other] {
                    continue;
                }
                let reduced = cost(row - 1, other - 1) - of_row[row] - of_column[other];
                if reduced < least[other] {
                    (least[other], before[other]) = (reduced, column);
                }
                if least[other] < step {
                    (step, next) = (least[other], other);
                }
            }
            for other in 0..=width {
                if visited[other] {
                    of_row[row_of[other]] += step;
                    of_column[other] -= step;
                } else {
                    least[other] -= step;
                }
            }
            column = next;
            if row_of[column] == 0 {
                break;
            }
        }
        while column != 0 {
            row_of[column] = row_of[before[column]];
            column = before[column];
        }
    }
    let mut assigned = vec![None; rows];
    for (column, &row) in row_of.iter().enumerate().skip(1).take(columns) {
        if row > 0 && weight(row - 1, column - 1) > 0.0 {
            assigned[row - 1] = Some(column - 1);
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// The largest sum over all ways to assign rows from `row` on.
    fn largest(weights: &[Vec<f64>], row: usize, free: &mut Vec<bool>) -> f64 {
        let Some(of_row) = weights.get(row) else { return 0.0 };
        let mut best = largest(weights, row + 1, free);
        for (column, weight) in of_row.iter().enumerate() {
            if free[column] {
                free[column] = false;
                best = best.max(weight + largest(weights, row + 1, free));
                free[column] = true;
            }
        }
        best
    }

    #[test]
    fn sum_is_the_largest() {
        let mut rng = StdRng::seed_from_u64(9);
        for _ in 0..2000 {
            let (rows, columns) = (rng.random_range(1..6), rng.random_range(1..6));
            let weight = |rng: &mut StdRng| if rng.random_bool(0.4) { 0.0 } else { f64::from(rng.random_range(1..8)) };
            let weights: Vec<Vec<f64>> = (0..rows).map(|_| (0..columns).map(|_| weight(&mut rng)).collect()).collect();
            let assigned = assign(rows, columns, |row, column| weights[row][column]);
            let pairs = assigned.iter().enumerate().filter_map(|(row, column)| Some((row, (*column)?)));
            let mut taken: Vec<usize> = pairs.clone().map(|(_, column)| column).collect();
            taken.sort_unstable();
            taken.dedup();
            assert_eq!(taken.len(), pairs.clone().count(), "a column is assigned once");
            let sum: f64 = pairs.map(|(row, column)| weights[row][column]).sum();
            assert_eq!(sum, largest(&weights, 0, &mut vec![true; columns]));
        }
    }
}
