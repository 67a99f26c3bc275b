//! The functions, compared with vectors and oracles; their properties; and the plane that combines them.

mod identify_oracle;
mod identify_vectors;
mod latent;
mod oracle;
mod plane;
mod prp;
mod recover_oracle;
mod recover_properties;
mod recover_vectors;
mod validate;
mod watch;
mod wildcard;

#[path = "common/identify.rs"]
mod identify_cases;
#[path = "common/recover.rs"]
mod recover_cases;

onbeat_testing::count_allocations!();
