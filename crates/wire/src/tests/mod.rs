mod golden;
mod round_trip;
mod rules;
mod samples;
