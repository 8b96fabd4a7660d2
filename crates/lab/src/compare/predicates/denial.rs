//! denial
